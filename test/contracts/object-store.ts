import { setImmediate as immediate } from 'node:timers/promises'
import { crc32 } from 'node:zlib'
import type { ExecutionContext, TestFn } from 'ava'
import { BodyMismatch, BodyNotFound, BodyTooLarge, type ObjectStore } from '../../activities/objects/port.ts'
import { newId } from '../../policy/ids.ts'
import { bodyOf, bytesOf, hex, noise, stuckBody, tornBody } from '../kit/bodies.ts'

/** The contract of every store, on a real one. `stays` counts everything that is stored or left behind, bodies included. */
export function objectStoreContract(test: TestFn, store: () => ObjectStore, remains: () => Promise<string[]>): void {
  const refused = async (t: ExecutionContext, id: string) => {
    t.is(await store().head(id), null)
    t.deepEqual(
      (await remains()).filter(path => path.includes(id)),
      [],
    )
  }

  test('a body comes back as it was put, with its hashes', async t => {
    const bytes = noise(3_000_000)
    const id = newId()
    t.deepEqual(await store().put(id, bodyOf(bytes), { length: bytes.length, maxBytes: bytes.length }), {
      size: bytes.length,
      md5: hex('md5', bytes),
      sha256: hex('sha256', bytes),
      crc32: crc32(bytes),
    })
    t.deepEqual(await store().head(id), { size: bytes.length })
    t.true((await bytesOf(await store().get(id))).equals(bytes))
  })

  test('small ranges come in one piece, up to the end of the body', async t => {
    const bytes = noise(100_000)
    const id = newId()
    await store().put(id, bodyOf(bytes))
    t.true((await store().read(id, 0, 100_000)).equals(bytes))
    t.true((await store().read(id, 7, 1)).equals(bytes.subarray(7, 8)))
    t.true((await store().read(id, 99_990, 100)).equals(bytes.subarray(99_990)))
    await t.throwsAsync(store().read(newId(), 0, 10), { instanceOf: BodyNotFound })
  })

  test('an empty body is a body', async t => {
    const id = newId()
    const stored = await store().put(id, bodyOf(Buffer.alloc(0)), { length: 0 })
    t.is(stored.md5, 'd41d8cd98f00b204e9800998ecf8427e')
    t.deepEqual(await store().head(id), { size: 0 })
    t.is((await bytesOf(await store().get(id))).length, 0)
  })

  for (const size of [1, 1000, 300_000])
    test(`ranges of ${size} bytes are absolute and inclusive`, async t => {
      const bytes = noise(size)
      const id = newId()
      await store().put(id, bodyOf(bytes))
      const last = size - 1
      for (const [from, to] of [
        [0, 0],
        [last, last],
        [0, last],
        [0, size + 10],
        [size >> 1, undefined],
        [size >> 2, size >> 1],
      ] as const)
        t.true(
          (await bytesOf(await store().get(id, from, to))).equals(bytes.subarray(from, (to ?? last) + 1)),
          `${from}-${to}`,
        )
      await t.throwsAsync(store().get(id, size, size + 1), { instanceOf: RangeError })
    })

  test('a body that is cut off leaves nothing', async t => {
    for (const length of [1000, 3_000_000]) {
      const id = newId()
      await t.throwsAsync(store().put(id, tornBody(noise(length)), { length: length * 2 }))
      await refused(t, id)
    }
  })

  test('a body shorter or longer than declared leaves nothing', async t => {
    for (const [sent, length] of [
      [1000, 1001],
      [1001, 1000],
      [0, 1],
      [1, 0],
      [2_000_000, 1_999_999],
    ] as const) {
      const id = newId()
      await t.throwsAsync(store().put(id, bodyOf(noise(sent)), { length }), { instanceOf: BodyMismatch })
      await refused(t, id)
    }
  })

  test('a body over the cap is refused while it still arrives', async t => {
    const id = newId()
    const body = stuckBody(noise(200_001))
    await t.throwsAsync(store().put(id, body, { maxBytes: 200_000 }), { instanceOf: BodyTooLarge })
    t.true(body.destroyed)
    await refused(t, id)
  })

  test('a cancelled put leaves nothing', async t => {
    const id = newId()
    const abort = new AbortController()
    const put = store().put(id, stuckBody(noise(100_000)), { signal: abort.signal })
    setTimeout(() => abort.abort(), 50)
    await t.throwsAsync(put, { name: 'AbortError' })
    await refused(t, id)
  })

  test('a cancelled get ends with an error', async t => {
    const id = newId()
    await store().put(id, bodyOf(noise(5_000_000)))
    const abort = new AbortController()
    const stream = await store().get(id, 0, undefined, abort.signal)
    const read = bytesOf(stream)
    abort.abort()
    await t.throwsAsync(read, { name: 'AbortError' })
  })

  test('borrowed bytes are those of the body or its range, each piece valid until the next one is requested', async t => {
    const bytes = noise(5_000_000)
    const id = newId()
    await store().put(id, bodyOf(bytes))
    for (const [from, to] of [
      [0, undefined],
      [7, 7],
      [1_000_000, 4_999_998],
      [4_999_000, 9_000_000],
    ] as const) {
      let at: number = from
      for await (const piece of await store().lend(id, from, to)) {
        await immediate() // what is read ahead must not touch it
        t.true(piece.equals(bytes.subarray(at, at + piece.length)), `${from}-${to} at ${at}`)
        at += piece.length
      }
      t.is(at, Math.min(to ?? 4_999_999, 4_999_999) + 1)
    }
    await t.throwsAsync(store().lend(id, 5_000_000), { instanceOf: RangeError })
    await t.throwsAsync(store().lend(newId()), { instanceOf: BodyNotFound })
  })

  test('sixty readers that stop reading hold up nobody', async t => {
    const bytes = noise(6_000_000)
    const id = newId()
    await store().put(id, bodyOf(bytes))
    const held = await Promise.all(Array.from({ length: 60 }, () => store().lend(id)))
    try {
      const other = newId()
      await store().put(other, bodyOf(noise(1000)))
      t.is((await store().read(other, 0, 1000)).length, 1000)
      t.is((await bytesOf(await store().get(id))).length, bytes.length)
      await store().delete(other)
      t.is(await store().head(other), null)
    } finally {
      for (const body of held) await body.destroy()
    }
  })

  test('an empty body has nothing to borrow', async t => {
    const id = newId()
    await store().put(id, bodyOf(Buffer.alloc(0)))
    for await (const piece of await store().lend(id)) t.fail(`${piece.length} bytes`)
    t.pass()
  })

  test('a cancelled borrowing ends with an error', async t => {
    const id = newId()
    await store().put(id, bodyOf(noise(5_000_000)))
    const abort = new AbortController()
    const lent = (await store().lend(id, 0, undefined, abort.signal))[Symbol.asyncIterator]()
    t.false((await lent.next()).done)
    abort.abort()
    const rest = async () => {
      while (!(await lent.next()).done);
    }
    await t.throwsAsync(rest(), { name: 'AbortError' })
  })

  test('eight concurrent puts do not mix', async t => {
    const bodies = Array.from({ length: 8 }, (_, index) => ({ id: newId(), bytes: noise(500_000 + index) }))
    await Promise.all(bodies.map(({ id, bytes }) => store().put(id, bodyOf(bytes, 1000 + (bytes.length % 7)))))
    for (const { id, bytes } of bodies) t.true((await bytesOf(await store().get(id))).equals(bytes))
  })

  test('a reader that has started reads to the end after a delete', async t => {
    const id = newId()
    const bytes = noise(4_000_000)
    await store().put(id, bodyOf(bytes))
    const stream = await store().get(id)
    const pieces: Buffer[] = []
    for await (const piece of stream) {
      if (pieces.length === 0) await store().delete(id)
      pieces.push(piece)
    }
    t.true(Buffer.concat(pieces).equals(bytes))
    t.is(await store().head(id), null)
  })

  test('a missing body is reported as missing, and deleted with success', async t => {
    const id = newId()
    t.is(await store().head(id), null)
    await t.notThrowsAsync(store().delete(id))
    await t.throwsAsync(store().get(id), { instanceOf: BodyNotFound })
    await t.throwsAsync(store().get(id, 0, 0), { instanceOf: BodyNotFound })
    await t.throwsAsync(store().open(id), { instanceOf: BodyNotFound })
  })

  test('an opened body can be read anywhere', async t => {
    const id = newId()
    const bytes = noise(400_000)
    await store().put(id, bodyOf(bytes))
    const file = await store().open(id)
    const read = Buffer.alloc(1000)
    await file.read(read, 0, 1000, 399_000)
    t.is((await file.stat()).size, bytes.length)
    await file.close()
    t.true(read.equals(bytes.subarray(399_000)))
  })

  test('an invalid id never becomes a path', async t => {
    for (const id of ['../../etc/passwd', '', 'a/b', 'ABCDEF0123456789'])
      await t.throwsAsync(store().put(id, bodyOf(noise(1))), { message: /^Not a segment id/ })
  })
}
