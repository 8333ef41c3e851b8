"""The curve of a run as a table for a spreadsheet."""

import csv
import io

from transformer_core.records.record import RunRecord

COLUMNS = ("step", "loss", "accuracy", "rate", "grad_norm")


def to_csv(record: RunRecord) -> str:
    """A row a step. The first sign is a byte-order mark, without which Excel would not read the text as UTF-8.

    Every number is written in full, with a point, so that it reads back as the very same.

    >>> to_csv(RunRecord(steps=1, losses=[2.5], accuracies=[0.125], rates=[1e-05], grad_norms=[3.0])).splitlines()
    ['\\ufeffstep,loss,accuracy,rate,grad_norm', '1,2.5,0.125,1e-05,3.0']
    """
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    curves = (record.losses, record.accuracies, record.rates, record.grad_norms)
    for place in range(max(map(len, curves))):
        writer.writerow([place + 1, *(curve[place] if curve else "" for curve in curves)])
    return "\ufeff" + table.getvalue()
