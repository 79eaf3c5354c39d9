import { execFile } from 'node:child_process'
import { closeSync, ftruncateSync, mkdirSync, openSync, rmSync, symlinkSync, writeFileSync, writeSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import test from 'ava'
import { snapshots } from '../../activities/snapshots/process.ts'
import { ownFolder } from '../kit/folders.ts'
import { opened, requestOf, snapshotTo } from '../kit/hosts/snapshots.ts'

const run = promisify(execFile)
const never = new AbortController().signal
const smallFiles = 50_000
const largeBytes = 2 * 1024 ** 3

/** Kinds, modes, sizes, links and contents of a whole tree as one hash, computed with other tools than ours. */
async function fingerprint(folder: string): Promise<string> {
  const list = String.raw`find . -mindepth 1 -printf '%y %m %l %p\0' | sort -z; find . -type f -print0 | sort -z | xargs -0 sha256sum`
  const { stdout } = await run('sh', ['-c', `cd "$1" && { ${list}; } | sha256sum`, 'list', folder])
  return stdout
}

test('50,000 small files and one of 2 GB are destroyed and restored byte for byte', async t => {
  t.timeout(30 * 60_000)
  const folder = ownFolder(t)
  const [files, target, archive] = ['files', 'target', 'snapshot.zip'].map(name => join(folder, name)) as [
    string,
    string,
    string,
  ]
  for (let n = 0; n < smallFiles; n++) {
    const below = join(files, `größe ${n % 100}`, `名前-${n % 1000}`)
    if (n < 1000) mkdirSync(below, { recursive: true })
    writeFileSync(join(below, `file-${n}`), n % 50 === 0 ? '' : `${n} `.repeat(n % 700))
    if (n % 1000 === 0) symlinkSync(`file-${n}`, join(below, `link-${n}`))
  }
  const large = openSync(join(files, 'large'), 'w')
  const piece = Buffer.alloc(1024 ** 2)
  for (let at = 0; at < largeBytes / 2; at += piece.length) {
    crypto.getRandomValues(piece.subarray(0, 65_536))
    writeSync(large, piece)
  }
  ftruncateSync(large, largeBytes) // the other half is a hole
  closeSync(large)
  const before = await fingerprint(files)

  const peaks: number[] = []
  const port = snapshots({ observe: bytes => peaks.push(bytes) })
  const made = await snapshotTo(archive, port, requestOf(files))
  t.is(made.files, smallFiles + smallFiles / 1000 + 1)
  rmSync(files, { recursive: true })
  await mkdir(target)
  await opened(archive, async file => {
    t.is((await port.verify(file, never)).digest, made.digest)
    await port.unpack(file, target, null, never)
  })
  t.is(await fingerprint(target), before)
  const { stdout } = await run('du', ['-sk', join(target, 'large')])
  t.true(Number.parseInt(stdout, 10) * 1024 < largeBytes * 0.6, 'what was a hole is one again')
  t.true(Math.max(...peaks) < 200 * 1024 ** 2, `${peaks} bytes in the children, with the loader of TypeScript`)
})
