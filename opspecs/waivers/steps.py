"""Recurrent cells, loops and sequences."""

from __future__ import annotations

from nnfuzz.operators.waiver import body, reference

LENGTHS_IGNORED = reference(
    "ignores sequence_lens",
    'RNN-14, GRU-14, LSTM-14: sequence_lens "specif[ies] lengths of the sequences in a batch"',
    where=lambda op, *_: bool(op.lens),
)
UNCLIPPED = reference(
    "ignores clip",
    'RNN-14, GRU-14, LSTM-14: "Clipping bounds the elements of a tensor in the range of '
    '[-threshold, +threshold] and is applied to the input of activations."',
    where=lambda op, *_: op.clip is not None,
)
OTHERWISE_ACTIVATED = reference(
    "ignores activations",
    'GRU-14, LSTM-14: activations are "a list of [...] activation functions for [...] gates"',
    where=lambda op, *_: op.activations not in ((), op.defaults * op.directions),
)

WAIVERS = {
    "RNN": (LENGTHS_IGNORED, UNCLIPPED),
    "GRU": (LENGTHS_IGNORED, UNCLIPPED, OTHERWISE_ACTIVATED),
    "LSTM": (LENGTHS_IGNORED, OTHERWISE_ACTIVATED),
    "Loop": (
        reference(
            "takes an absent condition for false",
            'Loop-13: input (trip_count, "") is analogous to for (int i=0; i < trip_count; ++i) '
            "{ cond = ...; // ignored }",
            where=lambda op, *_: op.style == "count" and op.trips,
        ),
        reference(
            "concatenates what it should stack",
            "Loop-13: user_defined_vals[i] = user_defined_val; a dimension is added in front",
            where=lambda op, x, *_: op.stacked and x.rank != 1,
            known="onnx/onnx#3122",
        ),
    ),
    **dict.fromkeys(
        ("Range", "RangeUpTo"),
        (
            body(
                "concatenates what its Loop should stack",
                'Range-11: the output is "a 1-D tensor"',
            ),
        ),
    ),
    "OptionalGetElement": (
        reference(
            "makes an optional tensor a list of one, and that an array with a further axis",
            'OptionalGetElement-18: "If the input is an optional type, it outputs the element in '
            'the input."',
        ),
    ),
}
