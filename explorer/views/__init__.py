"""One file a view: build() wires widgets; handlers are module-level functions."""
