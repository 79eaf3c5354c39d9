import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { archiveScript } from '../../../../activities/databases/engines/postgres/point-in-time/archive-script.ts'
import { ArchiveFolder } from '../../../../activities/databases/point-in-time/archive-folder.ts'
import { places } from '../../../../activities/databases/port.ts'
import { pointInTimeRules, walFileName, walFileOf } from '../../../../policy/databases/point-in-time.ts'

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
