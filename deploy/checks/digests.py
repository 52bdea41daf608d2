"""Images of others are named by their digests, so that nobody changes them on their way: those that the Dockerfile builds from. In
manifests there are none of others at all (programs.images), and kerf's own may have a digest or, where nobody has pushed one yet (the
dev overlay's localhost/, and before an operator has set his registry), the version."""

import re

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def dockerfile(text):
    """What is wrong with each FROM and `COPY --from`; arguments are taken by their defaults."""
    values = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.M))
    stages = {"scratch"}
    for word, place, name in re.findall(r"^(FROM|COPY --from=)\s*(?:--platform=\S+ )?(\S+)(?: AS (\S+))?", text, re.M):
        for key, value in values.items():
            place = place.replace(f"${{{key}}}", value)
        if place not in stages and not DIGEST.fullmatch(place.partition("@")[2]):
            yield f"Dockerfile: {word} {place} names no digest, so that anybody on its way may put another one there"
        if name:
            stages.add(name)
