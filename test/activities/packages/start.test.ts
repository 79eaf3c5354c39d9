import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { PackageChannel } from '../../../activities/packages/channel.ts'
import { MiB } from '../../../lib/bytes.ts'
import { packageCacheRules } from '../../../policy/packages/cache-rules.ts'

/** The program that this process has started. */
async function programs(): Promise<number[]> {
  const found: number[] = []
  for (const name of await readdir('/proc')) {
    const status = /^\d+$/.test(name) ? await readFile(`/proc/${name}/status`, 'utf8').catch(() => '') : ''
    if (!new RegExp(`^PPid:\\s*${process.pid}$`, 'm').test(status)) continue
    // The compiler of programs is another one. In a test run they are those of the compiled product.
    const command = await readFile(`/proc/${name}/cmdline`, 'utf8')
    if (/--preserve-symlinks-main|\/activities\/packages\//.test(command)) found.push(Number(name))
  }
  return found
}

test('a process that looks at many files of its folder for longer than an answer may take is waited for', async t => {
  t.timeout(60_000)
  const parent = await mkdtemp(join(tmpdir(), 'berth-packages-'))
  t.teardown(() => rm(parent, { recursive: true, force: true }))
  const folder = join(parent, 'packages')
  await mkdir(folder)
  const channel = new PackageChannel({ onWarning: () => {}, onEnd: () => {} })
  t.teardown(() => channel.end())
  const [pid] = await programs()
  process.kill(pid!, 'SIGSTOP')
  const start = { folder, maxBytes: MiB, freeBytes: 0, address: '127.0.0.1', subnet: '127.0.0.0/24', owner: null }
  const started = channel.start(start).then(
    () => 'started',
    (error: Error) => error.message,
  )
  await sleep((packageCacheRules.openSeconds + 2) * 1000)
  process.kill(pid!, 'SIGCONT')
  t.is(await started, 'started')
})
