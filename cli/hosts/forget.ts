import { setTimeout as sleep } from 'node:timers/promises'
import type { Command } from 'commander'
import { type Db, transaction } from '../../db/database.ts'
import {
  ForgetRefused,
  forgetHost,
  type HostLosses,
  listUnsettledTargets,
  readHostLosses,
} from '../../db/hosts/host-forgetting.ts'
import { findHost, type HostRow, listHosts } from '../../db/hosts/hosts.ts'
import { withInstallation } from '../installation/database.ts'
import { recordAct } from '../ops/operator.ts'
import { since } from '../ops/ops-words.ts'
import { confirmName } from '../terminal/confirm.ts'
import { secondsFrom } from '../terminal/options.ts'
import { sayOnStderr } from '../terminal/terminal.ts'
import { unknownHost } from './unknown-host.ts'

interface ForgetOptions {
  yes?: boolean
  json?: boolean
  wait: string
}

const about = `
For a host that is permanently lost, for example with its disk. This cannot be undone.
Its applications and databases are shown as exited, with the reason. Their owners can delete them, or restore a
snapshot of an application onto another host. Operations that waited for the host end with CLUSTER_UNAVAILABLE, and the memory
is available again in the owners' plans. The name cannot be used again: a process that returns under it is refused
and removes nothing. A host that still answers cannot be forgotten; stop its process first.
If the command is interrupted, run it again.`

/** `berth hosts forget`: one commit here; the worker then does the rest, one application or database at a time. */
export function forgetCommand(hosts: Command): void {
  hosts
    .command('forget')
    .description('give up a lost host, so that its applications can be deleted, or restored elsewhere')
    .argument('<name>', 'its name in the cluster')
    .option('--yes', 'do not ask for confirmation')
    .option('--wait <seconds>', 'maximum time to wait until all its applications and databases have ended', '60')
    .option('--json', 'print the outcome as one JSON object')
    .addHelpText('after', about)
    .action((name: string, { yes, json, wait }: ForgetOptions) =>
      withInstallation(async (_, db) => {
        const seconds = secondsFrom(wait)
        const host = await hostNamed(db, name)
        const losses = await readHostLosses(db, name)
        if (host.forgotten_at === null) {
          refuseAlive(host)
          sayOnStderr(prospect(host, losses, new Date()))
          await confirmName(name, yes)
        }
        await transaction(db, async trx => {
          await forgetHost(trx, name)
          if (host.forgotten_at === null)
            await recordAct(trx, { action: 'hosts.forget', accountId: null, resource: name })
        })
        const settled = await awaitSettled(db, name, seconds)
        console.log(json ? JSON.stringify({ host: name, ...losses, settled }) : outcome(name, losses, settled))
      }),
    )
}

async function hostNamed(db: Db, name: string): Promise<HostRow> {
  const host = await findHost(db, name)
  if (host) return host
  throw unknownHost(name, await listHosts(db))
}

/** Checked before the confirmation, and once more under a lock of the row. */
function refuseAlive({ id, reachable }: HostRow): void {
  if (reachable)
    throw new ForgetRefused(
      `The host ${id} answers, so it is not lost. To empty a running host: berth hosts drain ${id}`,
    )
}

/** The consequences, shown to the operator who confirms by typing the name. */
function prospect({ id, last_seen_at: seen }: HostRow, losses: HostLosses, now: Date): string {
  const { apps, restorable, databases, memoryMb, operations } = losses
  return [
    `The host ${id} ${seen.getTime() === 0 ? 'has left on purpose' : `was last seen ${since(seen, now)}`}. Forgetting it is final:`,
    `  ${apps} applications and ${databases} databases with ${memoryMb} MB are lost with it. ${restorable} of the applications have a snapshot that their owners can restore onto another host; everything else can only be deleted.`,
    `  ${operations} operations that wait for it, or run on it, end with CLUSTER_UNAVAILABLE.`,
    '  Make sure that the machine is off: programs that still run there would keep running alongside the restored ones.',
  ].join('\n')
}

async function awaitSettled(db: Db, hostId: string, seconds: number): Promise<boolean> {
  for (const deadline = Date.now() + seconds * 1000; ; await sleep(200)) {
    if ((await listUnsettledTargets(db, { limit: 1, hostId })).length === 0) return true
    if (Date.now() > deadline) return false
  }
}

function outcome(name: string, { apps, restorable, databases }: HostLosses, settled: boolean): string {
  const rest = settled
    ? `Its ${apps} applications and ${databases} databases have ended; ${restorable} applications can be restored from a snapshot.`
    : 'The worker is still ending the operations of its applications and databases, and continues on its own; see: berth hosts list, berth logs worker'
  return `The host ${name} is forgotten. ${rest}`
}
