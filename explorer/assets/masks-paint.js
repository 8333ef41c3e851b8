// Masks: the hand on a grid. A click chooses a row, or paints where painting is on; a drag paints what it passes; the
// arrows move, Space paints and I inverts a row. Everything is drawn here first and sent when the hand is lifted.

function listen(map, name) {
  map.addEventListener("pointerdown", (event) => press(event, map, name));
  map.addEventListener("pointermove", (event) => drag(event, map, name));
  for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) map.addEventListener(end, () => lift(name));
  map.addEventListener("keydown", (event) => keyed(event, map, name));
  map.addEventListener("click", (event) => {
    const row = event.target.closest("[data-pick]");
    if (row) chooseRow(name, Number(row.dataset.pick));
  });
  map.addEventListener("focusin", (event) => { const spot = spotOf(event.target); if (spot) tell(name, ...spot); });
}

const spotOf = (node) => { const cell = node?.closest?.("td[data-j]"); return cell ? [Number(cell.dataset.i), Number(cell.dataset.j)] : null; };

// The cell under a pointer, which a captured pointer may have left long ago.
function spotAt(event, map, name) {
  const grid = gridOf(name), parts = sections.get(name);
  if (!isLarge(grid)) {
    const spot = spotOf(document.elementFromPoint(event.clientX, event.clientY));
    return spot && map.contains(document.elementFromPoint(event.clientX, event.clientY)) ? spot : null;
  }
  const seen = parts.plot.picture.getBoundingClientRect(), scale = parts.plot.picture.viewBox.baseVal.width / seen.width, { at, size } = parts.plot;
  const i = Math.floor(((event.clientY - seen.top) * scale - at.y) / size), j = Math.floor(((event.clientX - seen.left) * scale - at.x) / size);
  return i >= 0 && j >= 0 && i < grid.rows && j < grid.columns ? [i, j] : null;
}

function press(event, map, name) {
  if (event.button !== 0) return;
  const spot = spotAt(event, map, name), grid = gridOf(name);
  if (!spot) return;
  view.cursor[name] = spot;
  if (!view.painting) { chooseRow(name, spot[0]); tell(name, ...spot); return; }
  event.preventDefault(); // a drag marks no text, and the focus goes to the cell below
  focusCell(grid, sections.get(name));
  try { map.setPointerCapture(event.pointerId); } catch { /* a pointer that is gone already */ }
  view.stroke = { name, to: paintedOf(grid)[spot[0] * grid.columns + spot[1]] ? 0 : 1, last: spot, changed: false };
  paintAt(grid, ...spot);
}

function drag(event, map, name) {
  const stroke = view.stroke;
  if (!stroke) { if (event.pointerType === "mouse" && isLarge(gridOf(name))) { const spot = spotAt(event, map, name); if (spot) { moveCursor(gridOf(name), sections.get(name), ...spot); } } return; }
  if (stroke.name !== name) return;
  const spot = spotAt(event, map, name);
  if (!spot) return;
  // A fast hand skips cells: all on the way are painted.
  const [i0, j0] = stroke.last, steps = Math.max(Math.abs(spot[0] - i0), Math.abs(spot[1] - j0), 1);
  for (let n = 1; n <= steps; n += 1) paintAt(gridOf(name), Math.round(i0 + ((spot[0] - i0) * n) / steps), Math.round(j0 + ((spot[1] - j0) * n) / steps));
  stroke.last = spot;
}

function lift(name) {
  const stroke = view.stroke;
  if (!stroke || stroke.name !== name) return;
  view.stroke = null;
  if (stroke.changed) commitPaint(gridOf(name));
}

function paintAt(grid, i, j) {
  const cells = paintedOf(grid), at = i * grid.columns + j;
  view.cursor[grid.name] = [i, j];
  if (cells[at] === view.stroke.to) return;
  cells[at] = view.stroke.to;
  view.stroke.changed = true;
  redraw(grid, [[i, j]]);
  tell(grid.name, i, j);
}

// These cells and the count beside their rows, at once.
function redraw(grid, spots) {
  const parts = sections.get(grid.name);
  if (isLarge(grid)) { paintPicture(grid, parts); return; }
  for (const [i, j] of spots) {
    const row = parts.map.querySelector(`tr[data-i="${i}"]`), cell = row?.querySelector(`td[data-j="${j}"]`);
    if (!cell) continue;
    dressCell(grid, cell, i, j);
    row.querySelector(".tl-m-count").textContent = String(visibleIn(grid, i));
    row.className = rowClass(grid, i) || "";
  }
  parts.map.querySelector("table")?.classList.add("tl-m-old");
}

function chooseRow(name, row) {
  const grid = gridOf(name);
  view.cursor[name] = [row, view.cursor[name]?.[1] || 0];
  look({ mask_at: name, mask_row: Math.min(Math.max(row, 0), grid.rows - 1) });
}

// --------------------------------------------------------------------------------------------------------------- keys

function keyed(event, map, name) {
  const grid = gridOf(name), parts = sections.get(name);
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const [i, j] = view.cursor[name] || [0, 0];
  const to = { ArrowUp: [i - 1, j], ArrowDown: [i + 1, j], ArrowLeft: [i, j - 1], ArrowRight: [i, j + 1], Home: [i, 0], End: [i, grid.columns - 1], PageUp: [0, j], PageDown: [grid.rows - 1, j] }[event.key];
  if (to) {
    view.cursor[name] = [Math.min(Math.max(to[0], 0), grid.rows - 1), Math.min(Math.max(to[1], 0), grid.columns - 1)];
    focusCell(grid, parts);
  } else if (event.key === " ") {
    view.stroke = { name, to: paintedOf(grid)[i * grid.columns + j] ? 0 : 1, changed: false };
    paintAt(grid, i, j);
    view.stroke = null;
    settle(grid);
  } else if (event.key === "i" || event.key === "I") {
    const cells = paintedOf(grid);
    for (let at = i * grid.columns; at < (i + 1) * grid.columns; at += 1) cells[at] = 1 - cells[at];
    redraw(grid, Array.from({ length: grid.columns }, (_, column) => [i, column]));
    tell(name, i, j);
    settle(grid);
  } else if (event.key === "Enter") chooseRow(name, i);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

// Keys come in bursts: what they painted is sent when they rest.
function settle(grid) {
  clearTimeout(view.resting);
  if (view.resting && view.rested !== grid.name) commitPaint(gridOf(view.rested));
  view.rested = grid.name;
  box.dataset.state = "busy";
  view.resting = setTimeout(() => commitPaint(grid), 150);
}

function setStop(grid, parts) {
  const [i, j] = view.cursor[grid.name] || [0, 0];
  const cell = parts.map.querySelector(`td[data-i="${Math.min(i, grid.rows - 1)}"][data-j="${Math.min(j, grid.columns - 1)}"]`);
  if (cell) cell.tabIndex = 0;
}

function focusCell(grid, parts) {
  const [i, j] = view.cursor[grid.name] || [0, 0];
  if (isLarge(grid)) {
    parts.plot.picture.focus({ preventScroll: true });
    moveCursor(grid, parts, i, j);
    return;
  }
  for (const cell of parts.map.querySelectorAll('td[tabindex="0"]')) cell.tabIndex = -1;
  setStop(grid, parts);
  parts.map.querySelector('td[tabindex="0"]')?.focus({ preventScroll: true });
}

function moveCursor(grid, parts, i, j) {
  const { at, size, cursor } = parts.plot;
  cursor.setAttribute("x", short(at.x + j * size));
  cursor.setAttribute("y", short(at.y + i * size));
  cursor.setAttribute("visibility", "visible");
  tell(grid.name, i, j);
}

function tell(name, i, j) {
  const grid = gridOf(name);
  if (!grid || i >= grid.rows || j >= grid.columns) return;
  const more = grid.sums ? t("row_facts", { sees: visibleIn(grid, i), sum: Number.isFinite(numeral(grid.sums[i])) ? numeral(grid.sums[i]).toFixed(6) : "NaN", entropy: asNumber(numeral(grid.entropy[i])) }) : t("row_sees", { sees: visibleIn(grid, i) });
  readBox.textContent = `${attentionName(name)} · ${cellSentence(grid, i, j)} · ${more}`;
}
