"""The sentence for everything that is refused: what was given, what is allowed, what is nearest.

Every refusal is a ``ConfigError`` built from one row of ``MESSAGES``. The row's name (``code``) and its ``values`` are
stable, so that a page can say the same in another language.
"""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

MESSAGES: Mapping[str, str] = {
    # one value
    "not_whole": "{field} must be a whole number, got {given}.",
    "not_number": "{field} must be a number, got {given}.",
    "not_finite": "{field} must be a finite number, got {given}.",
    "not_flag": "{field} must be true or false, got {given}.",
    "not_text": "{field} must be text, got {given}.",
    "not_unicode": "{field} holds half of a character, so it cannot be written as UTF-8: {given}.",
    "not_list": "{field} must be a list, got {given}.",
    "not_section": "{field} must be a {wanted}, got {given}.",
    "out_of_range": "{field} is {given}; it must lie between {low} and {high}. The nearest is {nearest}.",
    "not_fraction": "{field} is {given}; it must be at least 0 and less than 1. The nearest is {nearest}.",
    "not_positive": "{field} is {given}; it must be greater than 0 and at most {high}.",
    "not_choice": "{field} is {given}; it can be {allowed}. The nearest is {nearest}.",
    "not_built": "{field} {given} is not built yet; {built} are.",
    # lists
    "empty": "{field} is empty; it needs at least one entry.",
    "empty_row": "{field} row {row} is empty; it needs at least one entry.",
    "ragged": "{field} row {row} holds {given} entries, but row 1 holds {wanted}; all rows must be equally long.",
    "custom_cell": "{field} row {row}, column {column} is {given}; a custom mask holds true (may attend) and false.",
    "id_not_whole": "{field} row {row}, position {column} is {given}; ids are whole numbers.",
    "blank_line": "{field} sentence {row} is blank; write at least one word or remove the line.",
    # values together
    "heads_divide": "d_model {d_model} is not divisible by {n_heads} heads; {nearest} are the nearest that divide it. "
    "Possible head counts: {counts}. With {n_heads} heads the nearest widths are {widths}.",
    "heads_too_many": "d_model {d_model} is too narrow for {n_heads} heads; {nearest} is the nearest that divides it. "
    "Possible head counts: {counts}. With {n_heads} heads the nearest width is {widths}.",
    "pad_outside": "pad_id is {given}, but {field} is {size}: ids go from 0 to {high}.",
    "pad_reserved": "pad_id {given} is taken: 1 begins a target, 2 ends it and 3 stands for unknown words. "
    "The nearest free one is {nearest}.",
    "warmup_needed": 'schedule "warmup" needs a warmup of at least 1 step, got {given}; the paper takes 4000.',
    "ids_and_text": "{field} and {field}_text are both given; keep one of them.",
    "rows_differ": "src has {src} sentences and tgt has {tgt}; each source sentence needs one target sentence.",
    # masks
    "rule_unknown": "{field} names the mask rule {given}; it can be {allowed}. The nearest is {nearest}.",
    "rule_needs_size": "the mask rule {given} in {field} needs a size, as in {nearest}.",
    "rule_takes_none": "the mask rule {given} in {field} takes no size; write {nearest}.",
    "rule_size": "the mask rule {given} in {field} needs a whole size between {low} and {high}. "
    "The nearest is {nearest}.",
    "rule_needs_condition": "the mask rule {given} in {field} needs a condition behind the colon, as in {nearest}.",
    "documents_cross": "cross names the mask rule {given}; documents are for self-attention, where queries and "
    "keys are one sequence.",
    "prefix_cross": "cross names the mask rule {given}; a prefix is for self-attention, where queries and keys are one "
    "sequence.",
    "rule_twice": "{field} names the mask rule {given} twice; once is enough.",
    "custom_missing": '{field} names "custom", but {field}_custom holds no matrix of true and false.',
    "custom_unused": '{field}_custom holds a matrix, but {field} does not name "custom".',
    # the condition of a mask rule
    "condition_empty": "the condition in {field} is empty; write one, as in {example}.",
    "condition_long": "the condition in {field} is {given} characters long; at most {high} fit.",
    "condition_deep": "the condition {given} in {field} is nested more than {high} deep at column {column}; "
    "write it with fewer brackets.",
    "condition_broken": "the condition {given} in {field} cannot be read at column {column}: {reason}.",
    "condition_sign": "the condition in {field} has {given} at column {column}, which means nothing here; "
    "write {instead}.",
    "condition_stranger": "the condition in {field} has {given} at column {column}; it is made of {parts}, and of "
    "nothing else.",
    "condition_name": "the condition in {field} names {given} at column {column}; it can be {allowed}. "
    "The nearest is {instead}.",
    "condition_function": "the condition in {field} calls {given} at column {column}; it can be {allowed}. "
    "The nearest is {instead}.",
    "condition_arguments": "the condition in {field} has {given} at column {column}; {function} takes {wanted} "
    "between its brackets, got {count}.",
    "condition_node": "the condition in {field} has {given} at column {column}; it is made of {parts}, and of nothing "
    "else.",
    "condition_number": "the condition in {field} has the number {given} at column {column}, where something that "
    "holds or not is wanted; compare it, as in {instead}.",
    "condition_no_number": "the condition in {field} has {given} at column {column}, where a number is wanted.",
    "condition_high": "the condition in {field} has the number {given} at column {column}; at most {high} fits.",
    "condition_large": "the condition in {field} has {given} at column {column}, which can grow beyond what 64 bits "
    "hold; multiply less.",
    "condition_zero": "the condition {given} in {field} divides by 0, first at {place}; ask before, "
    "as in k > 0 and q % k == 0.",
    # tokens against the model
    "id_outside": "{field} row {row}, position {column} holds the id {given}, but {limit} is {size}: "
    "ids go from 0 to {high}.",
    "too_long": "{field} is {given} tokens long, but max_seq_len is {limit}; shorten it or raise max_seq_len.",
    "too_many_tokens": "{field} would be {rows} sentences of {length} tokens; a batch holds at most {limit} tokens.",
    "vocabulary_small": "{field} is {given}, but {needed} ids are needed: the special ones and one for each "
    "different token.",
    # files and settings
    "unknown_key": "[{section}] has no {given}; the nearest is {nearest}. It has: {keys}.",
    "unknown_setting": "there is no setting {given}; the nearest is {nearest}.",
    "other_section": "[{section}] has no {given}; it belongs in [{nearest}].",
    "two_sections": "{given} stands in [{section}] and in [{other}]; keep one of them.",
    "key_twice": "{field} sets {others} together; give either it or those.",
    "no_effect": "{field} has no effect, because {other} gives the tokens; set {other}=none for random ones.",
    "setting_form": "the setting {given} is not of the form key=value, as in d_model=128.",
    "setting_section": "the setting {given} stands in several sections; write {allowed}.",
    "file_missing": "there is no preset and no file {given}; the presets are {keys}. The nearest is {nearest}.",
    "file_unreadable": "{given} cannot be read: {reason}.",
    "file_not_text": "{given} is not a text file in UTF-8, so it cannot be TOML.",
    "file_large": "{given} is larger than {limit} bytes, so it is no preset.",
    "toml_broken": "{given} is not valid TOML: {reason}.",
    "toml_section": "{given} must be a section with keys below it; write [{section}].",
    # sentence pairs
    "pairs_large": "the file has {size} bytes; at most {high} are read.",
    "pairs_lines": "the file has {lines} lines; at most {high} are read here.",
    "pairs_encoding": "the file is not UTF-8: line {row} holds the byte {given}. Save it as UTF-8; editors offer it "
    "under Save as, Encoding.",
    "pairs_none": "no sentence pair was found in {lines} lines; each line needs a sentence, a tab and its translation.",
    "pairs_left": "of {pairs} pairs {train} are left for training and {held_out} held out, and both need at least one; "
    "more pairs, a larger max_length or a smaller min_count leave more.",
    "sentence_length": "the sentence has {given} words and signs; 1 to {high} can be translated.",
    "library_missing": "{package} is needed here and is not installed: pip install {package}.",
    # records of runs
    "json_broken": "{given} is not valid JSON: {reason}.",
    "json_twice": "{given} stands twice in one object of the {field}; keep one of them.",
    "record_none": "this is no record of a run: it begins with {given}, and a record is JSON whose format is {wanted}.",
    "record_version": "the record is of version {given}, and this program reads version {known}; another version of "
    "the program wrote it.",
    "record_missing": "the record lacks {keys}, so the run cannot be repeated.",
    "record_task": "the record is of the task {given}, and here {wanted} is wanted.",
    "record_curve": "{field} holds {given} numbers, but {steps} steps were taken; give one a step or none at all.",
    "record_steps": "{given} steps were taken, but the training has {total}.",
    "record_pair": "{field} is {given}; a step and the rate from there on are wanted, as in [200, 0.001].",
    "record_hash": "{field} is {given}; 64 digits of 0 to 9 and a to f are wanted.",
    "record_deep": "{field} is nested more than {high} deep.",
    "record_large": "the record is larger than can be read: at most {high} bytes, and far fewer brackets.",
    "record_corpus": "the run learned from the corpus {name} (sha256 {wanted}), and {given} was given; the same file, "
    "read with the same options, is needed to repeat it.",
    "record_device": "the run was computed on the device {given}, and torch cannot compute on it here; write cpu in "
    "its place to repeat the run with other last digits.",
    "weights_broken": "these are no weights in the safetensors format: {reason}.",
    "weights_record": "there is no record of a run beside these weights, so it cannot be said which model they are of.",
    "weights_not_finite": "{given} holds a number in these weights that is not finite, so nothing can be computed with "
    "them.",
    "weights_other": "{given} is in these weights {shape}, and the model of the record has it {wanted}.",
}
"""One row a refusal: code -> English sentence. A list among the values is joined as ``LAST`` says, else with "and"."""

LAST: Mapping[str, str] = {"counts": ", ", "keys": ", ", "allowed": " or "}


class ConfigError(ValueError):
    """A setting that cannot be: ``str(error)`` says what was given, what is allowed and what is nearest.

    ``field`` names the setting, ``given`` is what came in, ``choices`` are ready replacements such as
    ``{"n_heads": 4}``; ``code`` and ``values`` are the row of ``MESSAGES`` and what fills it.
    """

    def __init__(
        self, code: str, *, field: str, given: Any = None, choices: Iterable[dict[str, Any]] = (), **values: Any
    ) -> None:
        self.code, self.field, self.given = code, field, given
        self.choices: list[dict[str, Any]] = list(choices)
        self.values: dict[str, Any] = {"field": field, "given": show(given), **values}
        words = {key: join(value, LAST.get(key, " and ")) for key, value in self.values.items()}
        super().__init__(MESSAGES[code].format(**words))

    def __reduce__(self) -> tuple[Any, ...]:
        """An exception is copied from its ``args``, the text alone; this one needs the rest as well."""
        rest = {key: value for key, value in self.values.items() if key not in ("field", "given")}
        return _rebuild, (self.code, self.field, self.given, self.choices, rest)


def _rebuild(code: str, field: str, given: Any, choices: list[dict[str, Any]], rest: dict[str, Any]) -> ConfigError:
    return ConfigError(code, field=field, given=given, choices=choices, **rest)


def show(value: Any) -> str:
    """A value as a sentence can quote it: text in quotes, and of anything at most 60 characters.

    >>> show("post"), show(7), show([1, 2]), show(True)
    ('"post"', '7', '[1, 2]', 'true')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        text = f'"{value}"' if isinstance(value, str) else str(value)
    except ValueError:  # Python does not print whole numbers of more than 4300 digits
        text = "a number of thousands of digits"
    text = text.encode("utf-8", "backslashreplace").decode()
    text = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text[:200])
    return text if len(text) <= 60 else f"{text[:57]}..."


def join(value: Any, last: str = " and ", comma: str = ", ") -> str:
    """A list as a sentence has it.

    >>> join([1, 2, 5]), join(["pre"]), join("as it is")
    ('1, 2 and 5', 'pre', 'as it is')
    """
    if not isinstance(value, list | tuple):
        return str(value)
    words = [str(item) for item in value]
    return last.join([comma.join(words[:-1]), words[-1]] if len(words) > 1 else words)


def first_line(error: Exception) -> str:
    """The first line of an error's text, or its kind if it has none.

    >>> first_line(ValueError("no such head\\nat all")), first_line(KeyError())
    ('no such head', 'KeyError')
    """
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def nearest(word: Any, words: Iterable[str]) -> str:
    """The one of ``words`` that reads most like ``word``.

    >>> nearest("d_modle", ["n_heads", "d_model"])
    'd_model'
    """
    return difflib.get_close_matches(show(word).strip('"'), list(words), n=1, cutoff=0.0)[0]
