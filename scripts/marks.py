"""Parts of documents that programs write, each between two marks: comments of Markdown, such as `<!-- x: begin -->`."""


def with_part(text: str, begin: str, end: str, part: str) -> str:
    """Return the text with `part`, which ends its last line, between the marks.

    Raises:
        ValueError: the text does not have each mark once, in this order.
    """
    head, has_begin, rest = text.partition(begin)
    _, has_end, tail = rest.partition(end)
    if not has_begin or not has_end or begin in rest or end in head + tail:
        raise ValueError(f"the document needs {begin} and {end}, once each and in this order")
    return f"{head}{begin}\n{part}{end}{tail}"
