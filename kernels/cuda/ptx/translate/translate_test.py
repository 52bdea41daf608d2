#!/usr/bin/env python3
"""What the translator refuses, what a thread keeps at a barrier, and what mutants there are."""

import sys
import unittest

sys.dont_write_bytecode = True

import liveness  # noqa: E402
import ptx_text  # noqa: E402
import translate  # noqa: E402

_HEAD = """.version 9.0
.target sm_90
.address_size 64
.extern .shared .align 16 .b8 dynamic_shared[];
.visible .entry Kernel(
.param .align 8 .b8 Kernel_param_0[16]
)
.maxntid 512, 1, 1
{
.reg .pred %p<3>;
.reg .b32 %r<9>;
.reg .b64 %rd<3>;
"""


def kernel_of(*lines):
    return _HEAD + "\n".join(lines) + "\nret;\n}\n"


def translated(*lines, **options):
    return translate.translate(kernel_of(*lines), "kernel.ptx", "kKernel", **options)


class TranslateTest(unittest.TestCase):

    def test_says_what_it_does_not_know(self):
        for line in ("shfl.sync.idx.b32 %r1, %r2, 0, 31, -1;", "vote.sync.ballot.b32 %r1, %p1, -1;",
                     "add.cc.u32 %r1, %r2, %r3;", "add.sat.s32 %r1, %r2, %r3;", "add.f32 %r1, %r2, %r3;",
                     "ld.u32 %r1, [%rd1];", "ld.volatile.global.u32 %r1, [%rd1];", "mul.hi.u32 %r1, %r2, %r3;",
                     "atom.global.cas.b32 %r1, [%rd1], %r2, %r3;", "bar.red.popc.u32 %r1, 0, %p1;",
                     "bar.sync 1;", "bar.warp.sync -1;", "@%p1 bar.sync 0;", "call foo;", "st.local.u32 [%rd1], %r1;",
                     "setp.lt.and.u32 %p1, %r1, %r2, %p2;", "mov.u32 %r1, %laneid;", "mov.u32 %r1, elsewhere;",
                     "bra $L_nowhere;", "ld.global.v2.u32 %r1, [%rd1];", ".reg .f32 %f<2>;", ".local .b8 depot[4];"):
            with self.subTest(line), self.assertRaisesRegex(ptx_text.PtxError, r"kernel\.ptx:13"):
                translated(line)

    def test_says_what_no_module_has(self):
        for text in (".func foo", ".global .u32 word;", ".const .u32 word;"):
            with self.subTest(text), self.assertRaises(ptx_text.PtxError):
                ptx_text.parse(text + "\n", "module.ptx")
        with self.assertRaisesRegex(ptx_text.PtxError, "ends within"):
            ptx_text.parse(_HEAD, "module.ptx")

    def test_writes_each_instruction(self):
        for line, cpp in (
                ("add.s32 %r1, %r2, -1;", "r1 = U32(U32(r2) + U32(18446744073709551615ull));"),
                ("setp.lt.s32 %p1, %r1, %r2;", "p1 = S32(r1) < S32(r2);"),
                ("@!%p1 mov.u32 %r1, %tid.x;", "if (!p1) { r1 = U32(t.index); }"),
                ("ld.param.u64 %rd1, [Kernel_param_0+8];",
                 "{ const auto v = m.LoadParameter<U64, 1>(t, U64(U64(kParameterBase) + U64(8ull)), 0); rd1 = v[0]; }"),
                ("st.shared.v2.u32 [dynamic_shared+4], {%r1, %r2};",
                 "m.StoreShared<U32, 2>(t, U32(U32(kSharedBase) + U32(4ull)), {U32(r1), U32(r2)}, 0);"),
                ("mul.wide.u32 %rd1, %r1, 4;", "rd1 = U64(U64(U32(r1)) * U64(U32(4ull)));")):
            with self.subTest(line):
                self.assertIn(f"  {cpp}\n", translated(line))

    def test_jumps_back_are_counted(self):
        self.assertIn("if (m.IsEndless()) return Stop::kEndless; goto _L_again;",
                      translated("$L_again:", "bra.uni $L_again;"))
        self.assertNotIn("IsEndless", translated("bra.uni $L_on;", "$L_on:"))

    def test_a_thread_keeps_what_it_reads_again(self):
        module = ptx_text.parse(kernel_of(
            "mov.u32 %r1, 1;", "mov.u32 %r2, 2;", "mov.u32 %r3, 3;", "bar.sync 0;",
            # Written anew before it is read; where the predicate is false, read.
            "mov.u32 %r2, %r1;", "@%p1 mov.u32 %r3, 5;", "add.s32 %r4, %r2, %r3;"), "kernel.ptx")
        self.assertEqual(liveness.live_behind_barriers(module.kernels[0]), {3: ["%p1", "%r1", "%r3"]})

    def test_a_thread_keeps_what_the_next_round_reads(self):
        module = ptx_text.parse(kernel_of(
            "mov.u32 %r1, 1;", "$L_again:", "add.s32 %r2, %r1, 1;", "bar.sync 0;", "setp.lt.u32 %p1, %r2, 9;",
            "@%p1 bra $L_again;"), "kernel.ptx")
        self.assertEqual(liveness.live_behind_barriers(module.kernels[0]), {2: ["%r1", "%r2"]})

    def test_mutants_are_barriers_and_masks(self):
        lines = ("and.b32 %r1, %r2, 31;", "bar.sync 0;", "and.b32 %r1, %r2, -16;", "and.b32 %r1, %r2, %r3;",
                 "or.b32 %r1, %r2, 7;", "and.b32 %r4, %r2, 31;")
        made = translated(*lines, has_mutants=True)
        self.assertIn("r1 = U32(r2) & (m.mutant() == 1 ? U32(15ull) : U32(31ull));", made)
        self.assertIn("if (m.mutant() != 2) {", made)
        self.assertIn("(m.mutant() == 3 ? U32(4294967264ull) : U32(4294967280ull))", made)
        self.assertIn("{kMutants, 4}", made)
        # Which one of its kind in the kernel, and of how many.
        for row in ('13, "0x1f", 1, 2, "the mask 0x1f is 0xf"', '14, "barrier", 1, 1, "a barrier is left out"',
                    '15, "0xfffffff0", 1, 1, "the mask 0xfffffff0 is 0xffffffe0"',
                    '18, "0x1f", 2, 2, "the mask 0x1f is 0xf"'):
            self.assertIn(f'  {{"Kernel", {row}}},\n', made)
        self.assertNotIn("mutant()", translated(*lines))

    def test_counts_are_of_what_runs_without_a_jump(self):
        lines = ("mov.u32 %r1, 1;", "@%p1 bra $L_on;", "ld.global.v2.u32 {%r2, %r3}, [%rd1];", "bar.sync 0;",
                 "@%p2 st.global.u8 [%rd1], %r1;", "$L_on:", "atom.global.add.u32 %r4, [%rd1], %r1;")
        made = translated(*lines, has_counts=True)
        # To the jump; to the barrier; behind it; and from the label to the end.
        self.assertIn("kBlocks0[] = {2, 2, 1, 2};", made)
        self.assertIn("kSites0, Run0, kBlocks0}", made)
        for text in ("  m.Enter(t, 0);\n  r1 = ", " bar_1:;\n  m.Enter(t, 2);\n", " _L_on:;\n  m.Enter(t, 3);\n",
                     " m.Loads(8);\n", "if (p2) { m.StoreGlobal<U8, 1>", " m.Stores(1); }\n",
                     " m.Loads(4); m.Stores(4);\n"):
            self.assertIn(text, made)
        plain = translated(*lines)
        for text in ("Enter", "Loads", "Stores", "kBlocks"):
            self.assertNotIn(text, plain)


if __name__ == "__main__":
    unittest.main()
