import test from 'ava'
import { maxFileBytes, type UploadPart, wholeParts } from '../../../../policy/objects/uploads/chunked.ts'

const part = (part: number, size: number): UploadPart => ({
  part,
  segmentId: `s${part}`,
  size,
  md5: '',
  checksum: null,
})
const least = 5 * 1024 * 1024

test('only the last part may be under 5 MB, none may be missing, and there must be one', t => {
  const whole = [part(1, least), part(2, least), part(3, 1)]
  t.deepEqual(wholeParts(whole), whole)
  t.deepEqual(wholeParts([part(1, 1)]), [part(1, 1)])
  t.throws(() => wholeParts([part(1, least), part(2, least - 1), part(3, 1)]), {
    code: 'CHUNK_TOO_SMALL',
    message: 'Part 2 is below 5 MB. Only the last part may be.',
  })
  t.throws(() => wholeParts([]), { code: 'NO_CHUNKS_UPLOADED' })
  t.throws(() => wholeParts([part(1, least), part(3, least)]), {
    code: 'INVALID_CHUNK_PART',
    message: 'Part 2 is missing.',
  })
})

test('a file of 205 parts has 6.4 GiB, and one of more parts 10 GiB at most', t => {
  t.is(maxFileBytes(205, 10_737_418_240), 6_878_658_560)
  t.is(maxFileBytes(2048, 10_737_418_240), 10_737_418_240)
})
