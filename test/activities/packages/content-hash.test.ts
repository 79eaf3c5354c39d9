import { mkdtemp, open, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { contentHash } from '../../../activities/packages/content-hash.ts'
import { zipOfEntries } from '../../kit/zips.ts'

/** The hash of Go of an archive with one file. */
async function hashed(
  t: ExecutionContext,
  path: string | Buffer,
  { data = '', signal = new AbortController().signal } = {},
) {
  const bytes = zipOfEntries([{ path, data }])
  const folder = await mkdtemp(join(tmpdir(), 'berth-zip-'))
  await writeFile(join(folder, 'x.zip'), bytes)
  const file = await open(join(folder, 'x.zip'))
  t.teardown(async () => {
    await file.close()
    await rm(folder, { recursive: true })
  })
  return contentHash('h1-zip').hex(file, bytes.length, signal)
}

test('an archive has the hash of the bytes of its names, and none with a line feed in them', async t => {
  t.is((await hashed(t, 'a@v1/x')).length, 64)
  t.not(await hashed(t, Buffer.from([0x82])), await hashed(t, 'é'), 'the same letter in the code of old archives')
  await t.throwsAsync(hashed(t, 'a@v1/x\nb@v1/y'), { message: /line feed/ })
})

test('an archive is verified until its deadline', async t => {
  const signal = AbortSignal.abort(new Error('late'))
  for (const data of ['', 'x'.repeat(1000)])
    await t.throwsAsync(hashed(t, 'a@v1/x', { data, signal }), { message: 'late' })
})
