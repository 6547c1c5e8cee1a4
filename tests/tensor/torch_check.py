#!/usr/bin/env python3
"""Compares what torch_trace writes with torch: views (shape, strides, offset, refusals), printing, conversion.

usage: torch_check.py TORCH_TRACE [PROGRAMS]
Exit code 77 where python3 has no torch: the test is then shown as skipped.
"""
import ast
import re
import subprocess
import sys
import warnings

try:
    import torch
except ImportError:
    print("skipped: python3 has no torch")
    sys.exit(77)

CALLS = {
    "Transpose": lambda t, a, b: t.transpose(a, b),
    "T": lambda t: t.t(),
    "Permute": lambda t, dims: t.permute(dims),
    "MoveDim": lambda t, a, b: t.movedim(a, b),
    "Narrow": lambda t, d, start, length: t.narrow(d, start, length),
    "Select": lambda t, d, i: t.select(d, i),
    "Slice": lambda t, d, start, end, step: torch.ops.aten.slice(t, d, start, end, step),
    "Unsqueeze": lambda t, d: t.unsqueeze(d),
    "Squeeze": lambda t, *d: t.squeeze(*d),
    "Expand": lambda t, shape: t.expand(shape),
    "Unfold": lambda t, d, size, step: t.unfold(d, size, step),
    "Diagonal": lambda t, offset, a, b: t.diagonal(offset, a, b),
    "View": lambda t, shape: t.view(shape),
    "Flatten": lambda t, a, b: t.flatten(a, b),
    "ViewDType": lambda t, name: t.view(getattr(torch, name)),
    "Detach": lambda t: t.detach(),
}


def run(tensor, call):
    name, arguments = re.fullmatch(r"(\w+)\((.*)\)", call).groups()
    if name == "ViewDType":
        return CALLS[name](tensor, arguments)
    values = ast.literal_eval(f"({arguments},)") if arguments else ()
    return CALLS[name](tensor, *values)


def same(header, tensor):
    shape, strides, offset = header
    if tuple(tensor.shape) != shape:
        return False
    if tensor.numel() == 0:
        return True  # strides and offset of no elements mean nothing
    return tensor.stride() == strides and tensor.storage_offset() * tensor.element_size() == offset


def check_views(dtype, shape, offset, steps):
    count = 1
    for size in shape:
        count *= size
    tensor = torch.empty(count + offset, dtype=getattr(torch, dtype))[offset:].view(shape)
    done = []
    for call, code, *header in steps:
        done.append(call)
        try:
            result = run(tensor, call)
        except (RuntimeError, IndexError, ValueError, TypeError) as error:
            if code != "OK":
                continue
            # torch wants an offset that is a multiple of the new item size; here the type's alignment is enough.
            if call.startswith("ViewDType") and "storage_offset" in str(error):
                return None
            return f"{done}: torch refuses: {error}"
        if code == "OK":
            if not same(header, result):
                return f"{done}: {header}, torch: {result.shape} {result.stride()} {result.storage_offset()}"
            tensor = result
        elif call.startswith("Flatten") and code == "FAILED_PRECONDITION":
            if result.data_ptr() == tensor.data_ptr() and tensor.numel() > 0:
                return f"{done}: refused, but torch needs no copy"
        elif min(result.shape, default=0) < 0:
            pass  # torch lets expand of no elements take a size of -2
        else:
            return f"{done}: {code}, torch: {result.shape}"
    return None


def from_hex(text, dtype):
    data = bytearray.fromhex(text)
    return torch.frombuffer(data, dtype=getattr(torch, dtype)) if data else torch.empty(0, dtype=getattr(torch, dtype))


def check_format(dtype, shape, data, text):
    wanted = str(from_hex(data, dtype).view(shape))
    return None if wanted == text else f"prints\n{text}\ntorch:\n{wanted}"


def check_convert(source, target, data, converted):
    # torch leaves open what a fraction below zero, or one that is not finite, becomes as an unsigned integer.
    values = from_hex(data, source)
    wanted = values.to(getattr(torch, target))
    ours = from_hex(converted, target)
    defined = torch.ones(values.numel(), dtype=torch.bool)
    if not wanted.is_complex() and not wanted.is_floating_point() and target != "bool":
        real = values.real if values.is_complex() else values
        if real.is_floating_point():
            real = real.double()
            limits = torch.iinfo(wanted.dtype)
            defined = torch.isfinite(real) & (real >= limits.min) & (real <= limits.max)
    if wanted.dtype.itemsize == 1:
        wanted, ours = wanted.view(torch.uint8).int(), ours.view(torch.uint8).int()
    else:
        wanted, ours = (torch.view_as_real(t) if t.is_complex() else t for t in (wanted, ours))
    equal = (wanted == ours) | ((wanted != wanted) & (ours != ours))
    if equal.dim() == 2:
        equal = equal.all(1)
    wrong = defined & ~equal
    return f"{source} to {target}: {values[wrong]} became {ours[wrong]}, torch: {wanted[wrong]}" if wrong.any() else None


def main():
    warnings.simplefilter("ignore")  # complex to real: torch says that it discards the imaginary part
    checks = {"views": check_views, "format": check_format, "convert": check_convert}
    counts = dict.fromkeys(checks, 0)
    failures = 0
    trace = subprocess.run([sys.argv[1], *sys.argv[2:]], capture_output=True, text=True, check=True).stdout
    for line in trace.splitlines():
        kind, *rest = ast.literal_eval(line)
        counts[kind] += 1
        wrong = checks[kind](*rest)
        if wrong:
            failures += 1
            if failures <= 10:
                print(f"{kind}: {wrong}")
    print(f"torch {torch.__version__}: " + ", ".join(f"{n} {kind}" for kind, n in counts.items()) + f"; {failures} differ")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
