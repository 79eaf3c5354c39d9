import type { Logger } from 'pino'
import type { ContainerHost } from '../../activities/containers/port.ts'
import type { Boot } from '../../activities/hosts/boot.ts'
import type { Db } from '../../db/database.ts'
import { beginBoot, knownBoot, recordEngine } from '../../db/hosts/host-boots.ts'
import { sharedTurns } from '../../lib/async/shared-turns.ts'
import { bootIdOf, type KnownBoot, type KnownEngine } from '../../policy/hosts/host-boot.ts'

export interface HostBootOptions {
  db: Db
  engine: Pick<ContainerHost, 'standing'>
  hostId: string
  /** Id of the boot that the machine is in. */
  machineBootId: string
  /** Rejects when another process is this host now. */
  held(): Promise<void>
  log: Logger
}

/** Of an engine that cannot tell its starts apart. */
const alike = 'unknown'

/** The boot that a host is in, as far as that can be told without its engine. Ports of an earlier boot are nobody's when this resolves. */
export async function hostBoot(options: HostBootOptions): Promise<Boot> {
  const { db, engine, hostId, machineBootId, held, log } = options
  let known: KnownBoot = await knownBoot(db, hostId)

  async function begin(bootId: string, told: KnownEngine | null): Promise<void> {
    await beginBoot(db, hostId, bootId, told)
    known = { bootId, engine: told }
  }

  async function settle(): Promise<string> {
    const { began, liveRestore } = await engine.standing()
    const told = { began: began ?? alike, liveRestore }
    const bootId = bootIdOf(known, machineBootId, told)
    if (bootId !== known.bootId) {
      await held()
      log.warn(
        { bootId },
        'the container engine was started anew and its containers had ended: what ran is brought back',
      )
      await begin(bootId, told)
    } else if (known.engine?.began !== told.began || known.engine.liveRestore !== liveRestore) {
      await held()
      await recordEngine(db, hostId, told)
      known = { bootId, engine: told }
    }
    return bootId
  }

  const settled = sharedTurns(settle)
  const bootId = bootIdOf(known, machineBootId, null)
  await begin(bootId, bootId === known.bootId ? known.engine : null)
  return {
    get id() {
      return known.bootId!
    },
    // What was told before somebody asked is no answer to them.
    settle: () => settled(hostId),
  }
}
