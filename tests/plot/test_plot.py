"""`rondo plot` draws what the performance programs write, and says what it can't draw.

Usage: test_plot.py RONDO.
"""
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ET

RONDO = ""
HEADER = "size,count,type,redop,root,in_place,time_us,algbw,busbw,wrong\n"
SVG = "{http://www.w3.org/2000/svg}"


class Plot(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, *rows):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(HEADER + "".join(row + "\n" for row in rows))
        return path

    def plot(self, *arguments):
        return subprocess.run([RONDO, "plot", *arguments], capture_output=True, text=True, timeout=60, check=False)

    def drawn(self, *arguments):
        """The root element, and the points of each line."""
        output = os.path.join(self.folder, "out.svg")
        result = self.plot("-o", output, *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        root = ET.parse(output).getroot()
        lines = [[tuple(map(float, point.split(","))) for point in line.get("points").split()]
                 for line in root.iter(SVG + "polyline")]
        return root, lines

    def texts(self, root):
        return [element.text for element in root.iter(SVG + "text")]

    def test_two_files(self):
        one = self.write("one.csv", "8,2,float,sum,-1,0,1,9,9,0", "8,2,float,sum,-1,1,1,1,1,0",
                         "1024,256,float,sum,-1,1,1,1,4,0", "131072,32768,float,sum,-1,1,1,1,2,0")
        two = self.write("two & more.csv", "8,2,float,sum,-1,1,1,1,3,0")
        root, lines = self.drawn(one, two, "--title", "a < b")
        self.assertEqual([len(line) for line in lines], [3, 1])
        (x0, y0), (x1, y1), (x2, y2) = lines[0]
        self.assertAlmostEqual(x1 - x0, x2 - x1, delta=0.2)  # seven octaves each
        self.assertTrue(y1 < y2 < y0)  # higher values are further up
        for text in ("one", "two & more", "a < b", "busbw, GB/s", "128 KiB"):
            self.assertIn(text, self.texts(root))

    def test_halves_columns_and_kinds(self):
        path = self.write("x.csv", "8,2,float,sum,-1,0,5,9,9,0", "8,2,float,sum,-1,1,500,1,1,0",
                          "8,2,half,sum,-1,1,50,1,1,0", "0,0,half,sum,-1,1,50,0,0,0")
        root, lines = self.drawn(path, "--column", "time_us")
        self.assertEqual([len(line) for line in lines], [1, 1])
        self.assertIn("x: half sum", self.texts(root))
        self.assertIn("time, us", self.texts(root))
        root, lines = self.drawn(path, "--out-of-place")
        self.assertEqual(len(lines), 1)

    def test_what_cannot_be_drawn(self):
        broken = self.write("broken.csv", "8,2,float")
        endless = self.write("endless.csv", "8,2,float,sum,-1,1,1,1,inf,0")
        empty = self.write("empty.csv")
        other = os.path.join(self.folder, "other")
        with open(other, "w") as file:
            file.write("hello\n")
        good = self.write("good.csv", "8,2,float,sum,-1,1,1,1,1,0")
        for arguments, words in (((broken,), "line 2"), ((endless,), "line 2"), ((empty,), "nothing to draw"),
                                 ((other,), "first line"), (("/no/such",), "cannot read"),
                                 ((good, "-o", "/no/such/x.svg"), "cannot write")):
            result = self.plot(*arguments)
            self.assertEqual(result.returncode, 1, arguments)
            self.assertIn(words, result.stderr)
        self.assertEqual(self.plot(good, "--column", "speed").returncode, 2)
        self.assertEqual(self.plot().returncode, 2)


if __name__ == "__main__":
    RONDO = sys.argv.pop(1)
    unittest.main()
