// Records real runs of every path into test/histories: `node scripts/record-histories.mjs <generation>`, or of some files of test/workflows:
// `node scripts/record-histories.mjs <generation> databases database-acts`. A new generation is added to the old ones, which must stay
// replayable as long as their code may run anywhere. List it in test/workflows/replay.test.ts.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const checkout = fileURLToPath(new URL('..', import.meta.url))
const [generation, ...only] = process.argv.slice(2)
if (!/^\d+$/.test(generation ?? '')) {
  console.error('Give the number of the generation: node scripts/record-histories.mjs 3')
  process.exit(2)
}
const folder = mkdtempSync(`${checkout}test/histories/recording-`)
const names = [
  ...['app-lane', 'deploy', 'snapshots', 'snapshot-places', 'proxy-away', 'downgrade', 'blob-upkeep'],
  ...['databases', 'database-acts', 'domains/domain'],
]
const runs = (only.length > 0 ? only : names).map(name => `test/workflows/${name}.test.ts`)
const { status } = spawnSync('npx', ['ava', '--serial', ...runs], {
  cwd: checkout,
  stdio: 'inherit',
  env: { ...process.env, RECORD_HISTORIES: folder },
})
for (const file of status === 0 ? readdirSync(folder) : [])
  renameSync(join(folder, file), join(folder, '..', file.replace('.json', `.${generation}.json`)))
rmSync(folder, { recursive: true, force: true })
process.exit(status ?? 1)
