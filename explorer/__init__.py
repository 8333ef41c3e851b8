"""The page: session, words, theme and views. The mathematics is in transformer_core."""
