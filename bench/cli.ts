import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inTurn, quantile, verdict } from './kit/sides.ts'

/**
 * CPU that commands use until they have printed their answer, compared with a Node process that does nothing, on an installation that the
 * bench starts and removes: `npx tsx bench/cli.ts [rounds]`. Deploys are left out: so many in a
 * row are refused.
 */
const rounds = Number(process.argv[2] ?? 10)
const goalMs = 400

const folder = mkdtempSync(join(tmpdir(), 'berth-bench-'))
const env = { ...process.env, BERTH_DATA: join(folder, 'data'), WARM_IMAGES: 'none', HOST_QUOTA: 'off' }

/** User and system time in ms of a command and its children. */
const cpuOf = (command: string) => async (): Promise<number> => {
  const script = `TIMEFORMAT='%U %S'; time { ${command} >/dev/null 2>"$0"; } || cat "$0"`
  const times = execFileSync('bash', ['-c', `{ ${script}; } 2>&1`, join(folder, 'errors')], { env, encoding: 'utf8' })
  const [user, system] = times.trim().split(' ').map(Number)
  if (!Number.isFinite(user! + system!)) throw new Error(`${command}: ${times}`)
  return (user! + system!) * 1000
}

const berth = (command: string) => execFileSync('bash', ['-c', `./berth ${command}`], { env, stdio: 'inherit' })

try {
  berth('up --detach')
  const { nothing, ...commands } = await inTurn(rounds, {
    nothing: cpuOf('node -e 0'),
    info: cpuOf('./berth info'),
    ps: cpuOf('./berth ps'),
  })
  console.log(`CPU of a command, median of ${rounds} rounds`)
  const floor = quantile(nothing, 0.5)
  console.log(`  node -e 0     ${floor.toFixed(0)} ms`)
  for (const [name, times] of Object.entries(commands)) {
    const median = quantile(times, 0.5)
    const ratio = `${(median / floor).toFixed(1)} times`
    console.log(
      `  berth ${name.padEnd(7)} ${median.toFixed(0)} ms   ${ratio}   ${verdict(`under ${goalMs} ms`, median < goalMs)}`,
    )
  }
} finally {
  berth('down --apps --forget --yes')
  rmSync(folder, { recursive: true, force: true })
}
