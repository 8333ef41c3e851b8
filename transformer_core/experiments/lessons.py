"""The six lessons: what is often said of a Transformer, asked of small ones and answered with what they did."""

from transformer_core.experiments import variants
from transformer_core.experiments.lesson import Lesson

LESSONS = {each.name: each for each in (
    Lesson("no_decoder_positions", "", "", "", "", "", "", "reverse", variants.POSITIONS),
    Lesson("large_vocabulary", "", "", "", "", "", "", "copy", variants.VOCABULARIES),
    Lesson("no_scaling", "", "", "", "", "", "", "copy", variants.SCALES),
    Lesson("no_warmup_deep_post", "", "", "", "", "", "", "reverse", variants.DEPTHS),
    Lesson("label_smoothing", "", "", "", "", "", "", "reverse", variants.SMOOTHINGS),
    Lesson("teacher_forcing_at_inference", "", "", "", "", "", "", "reverse", variants.FORCINGS),
)}
