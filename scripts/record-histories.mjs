// Makes test/histories again from real runs of every path: `node scripts/record-histories.mjs`. Only after a change of the
// workflows that running lanes need not survive; otherwise the old runs have to stay replayable.
import { spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const checkout = fileURLToPath(new URL('..', import.meta.url))
const folder = `${checkout}test/histories`
rmSync(folder, { recursive: true, force: true })
const runs = ['app-lane', 'deploy', 'snapshots', 'downgrade', 'blob-upkeep'].map(
  name => `test/workflows/${name}.test.ts`,
)
const { status } = spawnSync('npx', ['ava', '--serial', ...runs], {
  cwd: checkout,
  stdio: 'inherit',
  env: { ...process.env, RECORD_HISTORIES: folder },
})
process.exit(status ?? 1)
