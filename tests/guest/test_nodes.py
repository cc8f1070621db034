"""Memory nodes for real: what placement_test checks, in a guest with two of them; and `rondo doctor` there.

Usage: test_nodes.py IMAGE_FOLDER PLACEMENT_TEST RONDO.  Status 77 where no guest can run.
"""
import os
import sys
import unittest

import guest

image, placement, rondo = "", "", ""


class Nodes(unittest.TestCase):
    def test_placement(self):
        script = '"$0" --use-colour no && "$1" doctor --here'
        status, output = guest.run(image, ["bash", "-c", script, placement, rondo], {"RONDO_TIMEOUT": "60"})
        self.assertEqual(status, 0, output)
        self.assertIn("All tests passed", output)
        self.assertIn("memory nodes 0-1; memory can be placed", output)
        print(output)


if __name__ == "__main__":
    image, placement, rondo = map(os.path.abspath, sys.argv[1:4])
    try:
        guest.image(image)
    except guest.Missing as missing:
        print(f"skipped: {missing}")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
