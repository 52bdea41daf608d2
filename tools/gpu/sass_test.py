#!/usr/bin/env python3
"""Tests of tools/gpu/sass.py on machine code written by hand."""

import unittest

import sass

USAGE = """
arch = sm_90

Resource usage:
 Common:
  GLOBAL:0
 Function first:
  REG:32 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:1424 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function second:
  REG:255 STACK:16 SHARED:0 LOCAL:8 CONSTANT[0]:560 TEXTURE:0 SURFACE:0 SAMPLER:0
"""


def listing(*instructions, architecture="sm_90", name="first"):
    lines = ["", f"arch = {architecture}", f"\t\tFunction : {name}", '\t.headerflags\t@"..."']
    for index, instruction in enumerate(instructions):
        lines.append(f"        /*{index * 16:04x}*/                   {instruction} ;   /* 0x0 */")
        lines.append("                                                      /* 0x000fe20000000a00 */")
    return "\n".join(lines)


def loops(*instructions):
    (code,) = sass.parse_code(listing(*instructions)).values()
    return sass.loop_sizes(code)


class SassTest(unittest.TestCase):

    def check(self, limits, *instructions, usage=(32, 0)):
        (code,) = sass.parse_code(listing(*instructions)).values()
        return sass.check("K", "sm_90", code, usage, limits)[1]

    def test_functions_are_told_apart(self):
        text = (listing("NOP", "EXIT") + "\n" + listing("EXIT", name="second") + "\n"
                + listing("EXIT", architecture="sm_80"))
        self.assertEqual({key: len(code) for key, code in sass.parse_code(text).items()},
                         {("sm_90", "first"): 2, ("sm_90", "second"): 1, ("sm_80", "first"): 1})

    def test_usage(self):
        self.assertEqual(sass.parse_usage(USAGE),
                         {("sm_90", "first"): (32, 0), ("sm_90", "second"): (255, 24)})

    def test_the_end_of_a_kernel_is_no_loop(self):
        self.assertEqual(loops("NOP", "EXIT", "BRA 0x20", "NOP"), {})

    def test_a_loop_of_several_blocks(self):
        # Skips one of its own instructions, and may be left in the middle.
        self.assertEqual(
            loops("NOP", "LDS R1, [R2]", "@P0 BRA 0x40", "IADD3 R1, R1, R2, RZ", "NOP",
                  "@!P1 BRA 0x80", "@P2 BRA 0x10", "EXIT", "EXIT"), {0x10: 6})

    def test_a_branch_back_into_shared_code_is_no_loop(self):
        # What is rarely done lies behind the end and goes back to where it was left.
        self.assertEqual(loops("@P0 BRA 0x30", "NOP", "EXIT", "NOP", "BRA 0x10"), {})

    def test_of_nested_loops_the_inner_one(self):
        self.assertEqual(
            loops("NOP", "NOP", "NOP", "@P0 BRA 0x20", "@P1 BRA.U 0x10", "EXIT"), {0x20: 2})

    def test_instructions_a_byte(self):
        loop = ["NOP"] * 7 + ["@P0 BRA 0x0", "EXIT"]
        self.assertEqual(self.check((32, 4, 2.0), *loop), [])
        self.assertIn("2.00 instructions a byte", self.check((32, 4, 1.9), *loop)[0])
        self.assertIn("no loop", self.check((32, 4, 2.0), "NOP", "EXIT")[0])

    def test_registers_and_memory(self):
        self.assertEqual(self.check((32, None, None), "EXIT"), [])
        self.assertIn("33 registers", self.check((32, None, None), "EXIT", usage=(33, 0))[0])
        self.assertIn("8 bytes of stack", self.check((32, None, None), "EXIT", usage=(32, 8))[0])
        self.assertIn("at 0x10",
                      self.check((32, None, None), "NOP", "@P3 STL.64 [R1+0x8], R4", "EXIT")[0])
        self.assertIn("1 accesses", self.check((32, None, None), "LDL R0, [R1]", "EXIT")[0])

    def test_limits(self):
        self.assertEqual(sass.parse_limits("# x\n\n 32 128 6.4 Strip<A, 5u>\n 64 - - B\n"),
                         {"Strip<A, 5u>": (32, 128, 6.4), "B": (64, None, None)})
        with self.assertRaises(ValueError):
            sass.parse_limits("32 - - B\n33 - - B\n")


if __name__ == "__main__":
    unittest.main()
