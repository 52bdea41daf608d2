"""docs/spec/store.md (Parity), read a second time: which damage of a pack its parity can mend. Shares nothing with kerf."""

import struct

SECTOR_BYTES, HEAD_BYTES, SUM_BYTES, PAGE_ROWS = 4096, 128, 8, 511


class ParityFile:
    """Of a pack and its parity as they were written."""

    def __init__(self, pack, parity):
        self._pack, self._parity = pack, parity
        pack_bytes, self._groups, self.data_rows, self.parity_rows = struct.unpack_from("<QIII", parity, 32)
        if parity[:8] != b"KERFPRTY" or pack_bytes != len(pack):
            raise ValueError("no parity of this pack")
        self._sectors = -(-pack_bytes // SECTOR_BYTES)
        rows = self._sectors + self._groups * self.parity_rows
        self._table_bytes = SUM_BYTES * (rows + -(-rows // PAGE_ROWS))
        self._first = -(-(HEAD_BYTES + self._table_bytes) // SECTOR_BYTES) * SECTOR_BYTES
        self._second_table = self._first + self._groups * self.parity_rows * SECTOR_BYTES
        if self._second_table + self._table_bytes + HEAD_BYTES != len(parity):
            raise ValueError("its length is another one")

    def can_mend(self, pack, parity):
        """Whether these, damaged, have all that the pack was. `parity` is as long as it was, or None: it is gone."""
        if parity is None or parity[:HEAD_BYTES] != self._parity[:HEAD_BYTES] and parity[-HEAD_BYTES:] != self._parity[-HEAD_BYTES:]:
            return False
        lost = [0] * self._groups
        for sector in range(self._sectors):
            begin = sector * SECTOR_BYTES
            same = pack[begin:begin + SECTOR_BYTES].startswith(self._pack[begin:begin + SECTOR_BYTES])
            lost[sector % self._groups] += not same or not self._has_sum(parity, sector)
        for index in range(self._groups * self.parity_rows):
            begin = self._first + index * SECTOR_BYTES
            same = parity[begin:begin + SECTOR_BYTES] == self._parity[begin:begin + SECTOR_BYTES]
            lost[index % self._groups] += not same or not self._has_sum(parity, self._sectors + index)
        return max(lost) <= self.parity_rows

    def _has_sum(self, parity, row):
        page = row // PAGE_ROWS * (PAGE_ROWS + 1) * SUM_BYTES
        end = min(page + (PAGE_ROWS + 1) * SUM_BYTES, self._table_bytes)
        return any(parity[table + page:table + end] == self._parity[table + page:table + end]
                   for table in (HEAD_BYTES, self._second_table))
