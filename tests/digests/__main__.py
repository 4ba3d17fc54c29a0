"""Print digests of seeded fits, to compare two versions of the project.

python -m tests.digests          # numbers that other machines find, too, up to rounding
python -m tests.digests --bits   # every bit, for comparisons on one machine
"""

import argparse
import json

from tests.digests.digests import digests

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bits", action="store_true", help="hashes of all bits instead of numbers")
    print(json.dumps(digests(parser.parse_args().bits), indent=1))
