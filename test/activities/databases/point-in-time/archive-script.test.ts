import { execFile, execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import test, { type ExecutionContext } from 'ava'
import { archiveScript } from '../../../../activities/databases/engines/postgres/point-in-time/archive-script.ts'
import { ArchiveFolder } from '../../../../activities/databases/point-in-time/archive-folder.ts'
import { places } from '../../../../activities/databases/port.ts'
import { pointInTimeRules, walFileName, walFileOf } from '../../../../policy/databases/point-in-time.ts'
import { comesTrue } from '../../../kit/comes-true.ts'

const file = { timeline: 1, number: 7 }
const name = walFileName(file)
const bytes = Buffer.alloc(pointInTimeRules.fileBytes, 'w')
bytes.writeBigUInt64LE(BigInt(file.number) * BigInt(bytes.length), 8)

/** What a command of the script does before everything that runs it is killed. */
const deaths = [
  ['cp, before it', 'cp', ''],
  ['cp, halfway', 'cp', 'head -c 8000000 "$3" > "$4"'],
  ['the first sync', 'sync', ''],
  ['mv, before it', 'mv', ''],
  ['mv, after it', 'mv', '/bin/mv "$@"'],
  ['the second sync', 'sync', 'case "$1" in *draft*) exec /bin/sync "$@" ;; esac'],
] as const

for (const [when, command, work] of deaths)
  test(`an archive script that is killed at ${when}, leaves a whole file or none, and the next one completes it`, async t => {
    const root = mkdtempSync(join(tmpdir(), 'berth-archive-'))
    t.teardown(() => rmSync(root, { recursive: true, force: true }))
    const [data, programs, own] = [join(root, 'data'), join(root, 'bin'), join(root, name)]
    for (const folder of [data, programs]) mkdirSync(folder)
    writeFileSync(own, bytes)
    writeFileSync(join(programs, command), `#!/bin/sh\n${work}\nkill -9 $PPID\n`)
    chmodSync(join(programs, command), 0o755)
    const script = archiveScript.replaceAll(places.data, data)
    const archived = () =>
      ArchiveFolder.within(data, async folder => {
        const { files, gap, others } = await folder.list()
        t.false(gap)
        t.deepEqual(others, [])
        const read = await Promise.all(files.map(one => folder.read(one)))
        return read.map(one => one?.bytes.equals(bytes) ?? false)
      })

    const killed = spawnSync('sh', ['-c', script, 'sh', own, name], { env: { PATH: `${programs}:/usr/bin:/bin` } })
    t.is(killed.signal, 'SIGKILL')
    t.true(((await archived()) ?? []).every(Boolean), 'the host never finds a part of a file')

    execFileSync('sh', ['-c', script, 'sh', own, name], { env: { PATH: '/usr/bin:/bin' } })
    t.deepEqual(await archived(), [true])
    t.deepEqual(readdirSync(join(data, 'wal')).map(walFileOf), [file])
  })

/** An archive folder that is full, and a run of the script for one file more. */
function full(t: ExecutionContext) {
  const root = mkdtempSync(join(tmpdir(), 'berth-archive-'))
  t.teardown(() => rmSync(root, { recursive: true, force: true }))
  const [data, own] = [join(root, 'data'), join(root, name)]
  const [folder, states] = [join(data, 'wal'), join(data, 'pg/pg_wal/archive_status')]
  for (const one of [folder, states]) mkdirSync(one, { recursive: true })
  writeFileSync(own, bytes)
  const others = Array.from({ length: pointInTimeRules.maxWaiting }, (_, index) =>
    walFileName({ timeline: 1, number: 100 + index }),
  )
  for (const other of others) writeFileSync(join(folder, other), '')
  /** While it is there, the script waits for its next look. */
  const held = join(root, 'held')
  /** Resolves to how often it looked for room again. */
  const archive = async () => {
    const [programs, looks] = [join(root, 'bin'), join(root, 'looks')]
    mkdirSync(programs, { recursive: true })
    writeFileSync(looks, '')
    writeFileSync(
      join(programs, 'sleep'),
      `#!/bin/sh\necho >> ${looks}\nwhile [ -e ${held} ]; do /bin/sleep 0.01; done\n`,
    )
    chmodSync(join(programs, 'sleep'), 0o755)
    const env = { PATH: `${programs}:/usr/bin:/bin` }
    await promisify(execFile)('sh', ['-c', archiveScript.replaceAll(places.data, data), 'sh', own, name], { env })
    return readFileSync(looks, 'utf8').length
  }
  return { folder, states, others, archive, names: () => readdirSync(folder), looks: join(root, 'looks'), held }
}

test('an archive script that finds too many files waits for the host to take one, and leaves its file out after 8 s', async t => {
  const { folder, others, archive, names, looks, held } = full(t)
  writeFileSync(held, '')
  const archived = archive()
  await comesTrue(() => existsSync(looks) && readFileSync(looks, 'utf8').length === 1)
  t.false(names().includes(name) || names().includes('gap'))
  rmSync(join(folder, others[0]!))
  rmSync(held)
  await archived
  t.true(names().includes(name) && !names().includes('gap'))

  rmSync(join(folder, name))
  writeFileSync(join(folder, others[0]!), '')
  t.is(await archive(), 40, 'looks, 0.2 s apart')
  t.true(names().includes('gap') && !names().includes(name))
})

test('an archive script does not wait while its engine is stopped', async t => {
  const { folder, states, archive, names } = full(t)
  const state = join(states, '../../postmaster.pid')
  writeFileSync(state, '1\n/data\n1700000000\n5432\n/socket\n\n 0 0\nready   \n')
  t.is(await archive(), 40, 'a running one is waited for')
  rmSync(join(folder, 'gap'))
  writeFileSync(state, '1\n/data\n1700000000\n5432\n/socket\n\n 0 0\nstopping\n')
  t.is(await archive(), 0)
  t.true(names().includes('gap') && !names().includes(name))
})

test('an archive script waits neither while the host has not seen that one is left out, nor with 16 files behind it', async t => {
  const { folder, states, archive, names } = full(t)
  writeFileSync(join(folder, 'gap'), '')
  t.is(await archive(), 0)
  rmSync(join(folder, 'gap'))
  for (let number = 0; number < 17; number++)
    writeFileSync(join(states, `${walFileName({ timeline: 1, number })}.ready`), '')
  t.is(await archive(), 0)
  t.true(names().includes('gap') && !names().includes(name))
})

test('an archive script syncs a file before it has its name, and the name afterwards', t => {
  const root = mkdtempSync(join(tmpdir(), 'berth-archive-'))
  t.teardown(() => rmSync(root, { recursive: true, force: true }))
  const [data, programs, own, log] = ['data', 'bin', name, 'log'].map(one => join(root, one)) as [string, ...string[]]
  for (const folder of [data, programs!]) mkdirSync(folder)
  writeFileSync(own!, bytes)
  for (const command of ['cp', 'sync', 'mv']) {
    writeFileSync(join(programs!, command), `#!/bin/sh\necho ${command} "$@" >> ${log}\nexec /bin/${command} "$@"\n`)
    chmodSync(join(programs!, command), 0o755)
  }
  execFileSync('sh', ['-c', archiveScript.replaceAll(places.data, data), 'sh', own!, name], {
    env: { PATH: `${programs}:/usr/bin:/bin` },
  })
  const folder = join(data, 'wal')
  t.deepEqual(readFileSync(log!, 'utf8').trim().split('\n'), [
    `cp --preserve=timestamps -- ${own} ${folder}/draft`,
    `sync ${folder}/draft`,
    `mv -T -- ${folder}/draft ${folder}/${name}`,
    `sync ${folder}`,
  ])
})
