"""Makes a list of the crates that are linked into weir (CycloneDX 1.5) of what `cargo metadata` says.

    cargo metadata --locked --format-version 1 --filter-platform TARGET | sbom.py VERSION EPOCH
"""

import datetime
import json
import sys


def linked(metadata):
    """The packages that weir is made of: no tests' ones, no build scripts' ones."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    (weir,) = [package["id"] for package in metadata["packages"] if package["name"] == "weir"]
    edges, waiting = {}, [weir]
    while waiting:
        package = waiting.pop()
        if package in edges:
            continue
        edges[package] = sorted(
            dependency["pkg"]
            for dependency in nodes[package]["deps"]
            if any(kind["kind"] is None for kind in dependency["dep_kinds"])
        )
        waiting += edges[package]
    return weir, edges


def component(package):
    """One crate. Those of the workspace have no source."""
    name, version = package["name"], package["version"]
    purl = f"pkg:cargo/{name}@{version}"
    kept = {"type": "library", "bom-ref": purl, "name": name, "version": version}
    if package["license"]:
        kept["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if package["source"]:
        kept["purl"] = purl
    return kept


def main():
    version, epoch = sys.argv[1], int(sys.argv[2])
    metadata = json.load(sys.stdin)
    packages = {package["id"]: package for package in metadata["packages"]}
    weir, edges = linked(metadata)
    components = {identifier: component(packages[identifier]) for identifier in edges}
    ref = {identifier: kept["bom-ref"] for identifier, kept in components.items()}
    root = components.pop(weir) | {"type": "application", "version": version}
    time = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc)
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"), "component": root},
        "components": sorted(components.values(), key=lambda kept: kept["bom-ref"]),
        "dependencies": [
            {"ref": ref[identifier], "dependsOn": sorted(ref[other] for other in others)}
            for identifier, others in sorted(edges.items(), key=lambda edge: ref[edge[0]])
        ],
    }
    json.dump(bom, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
