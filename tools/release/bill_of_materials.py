"""Write the bill of materials, in CycloneDX's JSON: what is shipped, and what it needs when it is installed."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tomllib
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from clean_build import Source, read_version
from crates import OWN, Crate, list_crates
from cyclonedx.factory.license import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from native_build import TARGETS, find_cargo
from packageurl import PackageURL
from packaging.requirements import Requirement

VERSION = SchemaVersion.V1_6
_LICENCES = LicenseFactory()


def write_bill(source: Source, target: Path, archives: Sequence[Path]) -> None:
    """Write the bill of an export. The same commit has the same bill. Ends the program if it is not valid."""
    version = read_version(source.folder)
    main = _describe_package(version, archives)
    bill = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"pyspark-pravega {version} {source.commit}"))
    bill.metadata.timestamp = datetime.fromtimestamp(source.time, UTC)
    bill.metadata.component = main
    bill.metadata.properties.add(Property(name="git:commit", value=source.commit))
    needed = [_describe_requirement(each) for each in _read_requirements(source.folder)]
    native = _describe_crates(source)
    bill.components.update([*needed, *native.values()])
    bill.register_dependency(main, [*needed, *native.values()])
    text = make_outputter(bill, OutputFormat.JSON, VERSION).output_as_string(indent=2)
    problem = JsonStrictValidator(VERSION).validate_str(text)
    if problem is not None:
        sys.exit(f"The bill of materials is not valid: {problem}")
    target.write_text(text + "\n")


def _describe_package(version: str, archives: Sequence[Path]) -> Component:
    package = Component(
        type=ComponentType.LIBRARY,
        name="pyspark-pravega",
        version=version,
        bom_ref=f"pkg:pypi/pyspark-pravega@{version}",
        purl=PackageURL("pypi", name="pyspark-pravega", version=version),
        licenses=[_LICENCES.make_from_string("Apache-2.0")],
    )
    for archive in archives:
        digest = HashType(alg=HashAlgorithm.SHA_256, content=hashlib.sha256(archive.read_bytes()).hexdigest())
        reference = ExternalReference(type=ExternalReferenceType.DISTRIBUTION, url=XsUri(archive.name), hashes=[digest])
        package.external_references.add(reference)
    return package


def _read_requirements(folder: Path) -> list[Requirement]:
    declared = tomllib.loads((folder / "pyproject.toml").read_text())["project"]["dependencies"]
    return [Requirement(each) for each in declared]


def _describe_requirement(requirement: Requirement) -> Component:
    """Describe a package that is not shipped: whoever installs this one chooses its version."""
    return Component(
        type=ComponentType.LIBRARY,
        name=requirement.name,
        bom_ref=f"pkg:pypi/{requirement.name}",
        purl=PackageURL("pypi", name=requirement.name),
        properties=[
            Property(name="pyspark-pravega:shipped", value="no, it is installed beside it"),
            Property(name="pyspark-pravega:versions", value=str(requirement.specifier)),
        ],
    )


def _describe_crates(source: Source) -> dict[str, Component]:
    """Describe the Rust crates in the native code of wheels, and Rust's standard library."""
    cargo = find_cargo()
    if cargo is None:
        sys.exit("The bill of materials needs Rust's cargo, which knows the crates.")
    crates = list_crates(cargo, source.folder / "native" / "Cargo.toml", TARGETS.values())
    described = {crate.label: _describe_crate(crate) for crate in crates if crate.name != OWN}
    rustc = subprocess.run([Path(cargo).with_name("rustc"), "--version"], text=True, capture_output=True, check=True)
    release = re.match(r"rustc (\S+)", rustc.stdout)
    assert release is not None
    described["std"] = Component(
        type=ComponentType.LIBRARY,
        name="rust-std",
        version=release[1],
        bom_ref=f"rust-std@{release[1]}",
        licenses=[_LICENCES.make_from_string("MIT OR Apache-2.0")],
    )
    return described


def _describe_crate(crate: Crate) -> Component:
    return Component(
        type=ComponentType.LIBRARY,
        name=crate.name,
        version=crate.version,
        bom_ref=f"pkg:cargo/{crate.name}@{crate.version}",
        purl=PackageURL("cargo", name=crate.name, version=crate.version),
        licenses=[_LICENCES.make_from_string(crate.license)],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=crate.checksum)],
        properties=[Property(name="pyspark-pravega:shipped", value="compiled into the wheels with native code")],
    )
