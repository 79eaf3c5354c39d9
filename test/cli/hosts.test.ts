import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { hostLines, hostsCommand } from '../../cli/hosts/hosts.ts'
import { findHost, listHosts, recordBuildFact, recordHostLeft, recordInstallCache } from '../../db/hosts/hosts.ts'
import { operatorHere } from '../kit/actors/operator-command.ts'
import { productArguments } from '../kit/product.ts'
import { rows } from '../kit/rows/rows.ts'
import { testDatabase } from '../kit/servers/database.ts'

const database = testDatabase()

test.serial('hosts are listed with their reservations and whether they answer', async t => {
  const { db } = await database
  const make = rows(db)
  await make.host('h1', { memoryMb: 8192, protections: { quota: 'enforced' } })
  const ana = await make.user()
  await make.app(ana.id, { memoryMb: 512 })
  await make.app(ana.id, { memoryMb: 1024 })
  await make.databaseHost('h1', { memoryMb: 8192, protections: { quota: 'enforced' } })
  await make.database(ana.id)
  await make.host('h2')
  await recordHostLeft(db, 'h2')
  await db('hosts').where({ id: 'h1' }).update({ draining: true })
  for (const state of ['none', '10.0.0.1']) await recordBuildFact(db, 'h1', 'proxy', { state, remedy: null })
  await recordBuildFact(db, 'h1', 'images', { state: 'ready', remedy: null })
  await recordInstallCache(db, 'h1', { results: 3, mb: 120, maxMb: 4096 })
  const [first, second] = await hostLines(db, 1024)
  t.like(first, { name: 'h1', state: 'draining', apps: 2, databases: 1, reserved_mb: 2048, memory_mb: 8192 })
  t.like(first, { reserved_disk_mb: 8 * 1024, disk_mb: (await findHost(db, 'h1'))!.disk_mb })
  t.like(first, { install_results: 3, install_cache_mb: 120, install_cache_max_mb: 4096 })
  t.like(second, { install_results: null, install_cache_mb: null, install_cache_max_mb: null })
  t.deepEqual(first?.protections, { quota: 'enforced' })
  const images = { state: 'ready', remedy: null }
  t.deepEqual(first?.builds, { proxy: { state: '10.0.0.1', remedy: null }, images })
  t.like(second, { name: 'h2', state: 'silent', apps: 0, databases: 0, reserved_mb: 0, last_seen_at: null })
})

test.serial(
  'drain and undrain work from the command line; an unknown name is refused with a list of hosts',
  async t => {
    const { db, url } = await database
    await rows(db).host('h3')
    await db('hosts').where({ id: 'h3' }).update({ last_seen_at: '2100-01-01' })
    const folder = mkdtempSync(join(tmpdir(), 'berth-hosts-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const environment = { DATABASE_URL: url, BERTH_MASTER_KEY: '00'.repeat(32), BERTH_DATA: folder }
    const run = async (...args: string[]) => {
      return new Promise<{ code: number; stdout: string; stderr: string }>(resolve => {
        const command = [...productArguments('cli/main'), 'hosts', ...args]
        execFile(process.execPath, command, { env: { ...process.env, ...environment } }, (error, stdout, stderr) =>
          resolve({ code: error ? 1 : 0, stdout, stderr }),
        )
      })
    }
    const draining = async () => (await listHosts(db)).find(({ id }) => id === 'h3')?.draining
    t.is((await run('drain', 'h3')).code, 0)
    t.true(await draining())
    t.like(JSON.parse((await run('list', '--json')).stdout).at(-1), { name: 'h3', state: 'draining' })
    t.regex(
      (await run('list')).stdout,
      /NAME +STATE.* APPS +DATABASES .* DISK [\s\S]*h3 +draining.* 0\/\d+ MB .*0\/\d+ MB/,
    )
    t.is((await run('undrain', 'h3')).code, 0)
    t.false(await draining())
    const refused = await run('drain', 'h9')
    t.is(refused.code, 1)
    t.regex(refused.stderr, /no host "h9".*h3/)
  },
)

test.serial(
  'a host is forgotten only if it is silent and the operator confirms; forgetting it again does no harm',
  async t => {
    const { db, url } = await database
    await rows(db).host('h4')
    const folder = mkdtempSync(join(tmpdir(), 'berth-hosts-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const settings = { DATABASE_URL: url, BERTH_DATA: folder }
    const forget = (...args: string[]) => operatorHere([hostsCommand], settings, 'hosts', 'forget', ...args)
    const state = async () => (await hostLines(db, 1024)).find(({ name }) => name === 'h4')?.state
    await db('hosts').where({ id: 'h4' }).update({ last_seen_at: '2100-01-01' })
    t.regex((await forget('h4', '--yes')).stderr, /h4 answers, so it is not lost.+berth hosts drain h4/)
    t.regex((await forget('h9', '--yes')).stderr, /no host "h9".*h4/)
    await recordHostLeft(db, 'h4')
    t.regex((await forget('h4')).stderr, /no terminal to confirm on: use --yes/)
    t.is(await state(), 'silent', 'nothing was done')
    for (const _ of ['once', 'again']) {
      const { stdout, stderr } = await forget('h4', '--yes', '--json')
      t.like(JSON.parse(stdout), { host: 'h4', apps: 0, operations: 0, settled: true }, stderr)
    }
    t.is(await state(), 'forgotten')
    t.deepEqual(await db('audit').where({ resource: 'h4' }).pluck('action'), ['hosts.forget'])
  },
)
