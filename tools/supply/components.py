"""Debian packages and wheels as packages of an SPDX document. Scanners know them by their package URL and by the Debian source
package, for which Debian says what is wrong with a version.
"""

import re

import spdx


def add_debian(document, package, licence):
    """`licence`: an expression and its unknown names, as debian.licence tells them."""
    expression, unknown = licence
    for name in unknown:
        document.licence_text(f"LicenseRef-Debian-{name}", f"As '{name}' in Debian's copyright files, usr/share/doc/PACKAGE/copyright.")
    reference = document.package(
        spdx.identifier("Package-deb", package.name), package.name, package.version, supplier="Organization: Debian",
        licenseDeclared=expression,
        # In the words that scanners look for.
        sourceInfo=f"built package from: {package.source} {package.source_version}",
        externalRefs=[{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": spdx.package_url(
            "deb", "debian", package.name, version=package.version, arch=package.architecture, distro="debian-12",
            upstream=f"{package.source}@{package.source_version}")}])
    for source, version in package.built_using:
        document.relate(reference, "STATIC_LINK", add_source(document, source, version), "Built-Using of the Debian package")
    return reference


def add_source(document, source, version):
    """What Debian has linked into a package of its own is known by source and version alone."""
    return document.package(
        spdx.identifier("Package-deb-source", source), source, version, supplier="Organization: Debian",
        sourceInfo=f"built package from: {source} {version}",
        externalRefs=[{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": spdx.package_url(
            "deb", "debian", source, version=version, arch="source", distro="debian-12")}])


def add_wheel(document, wheel):
    for name in re.findall(r"LicenseRef-[A-Za-z0-9.-]+", wheel.licence or ""):
        document.licence_text(name, f"As {wheel.name} {wheel.version} calls it; its text is in the wheel.")
    return document.package(
        spdx.identifier("Package-pypi", wheel.name), wheel.name, wheel.version, licenseDeclared=wheel.licence,
        externalRefs=[{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                       "referenceLocator": spdx.package_url("pypi", wheel.name, version=wheel.version)}])


def add_kerf(document, name, version, purpose, **fields):
    return document.package(spdx.identifier("Package-kerf", name), name, version, licenseConcluded="Apache-2.0",
                            licenseDeclared="Apache-2.0", primaryPackagePurpose=purpose, **fields)
