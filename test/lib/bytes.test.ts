import test from 'ava'
import { GiB, KiB, MiB } from '../../lib/bytes.ts'

test('units of bytes are powers of 1024', t => {
  t.deepEqual([KiB, MiB, GiB], [1024, 1_048_576, 1_073_741_824])
})
