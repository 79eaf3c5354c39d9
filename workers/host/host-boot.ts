import type { Logger } from 'pino'
import type { ContainerHost } from '../../activities/containers/port.ts'
import type { Boot } from '../../activities/hosts/boot.ts'
import type { Db } from '../../db/database.ts'
import { readHostBoot, recordBoot, recordEngine } from '../../db/hosts/host-boots.ts'
import { coalesced } from '../../lib/async/coalesced.ts'
import { bootIdOf, type KnownBoot, type KnownEngine } from '../../policy/hosts/host-boot.ts'

export interface HostBootOptions {
  db: Db
  engine: Pick<ContainerHost, 'standing'>
  hostId: string
  /** Id of the machine's present boot. */
  machineBootId: string
  /** Rejects when another process has taken over this host. */
  held(): Promise<void>
  log: Logger
}

/** The start of an engine that does not report it. */
const unknownStart = 'unknown'

/** The present boot of a host, as far as it can be determined without its engine. Once this resolves, ports of an earlier boot are released. */
export async function hostBoot(options: HostBootOptions): Promise<Boot> {
  const { db, engine, hostId, machineBootId, held, log } = options
  let current: KnownBoot = await readHostBoot(db, hostId)

  async function begin(bootId: string, reported: KnownEngine | null): Promise<void> {
    await recordBoot(db, hostId, bootId, reported)
    current = { bootId, engine: reported }
  }

  async function settle(): Promise<string> {
    const { began, liveRestore } = await engine.standing()
    const reported = { began: began ?? unknownStart, liveRestore }
    const bootId = bootIdOf(current, machineBootId, reported)
    if (bootId !== current.bootId) {
      await held()
      log.warn(
        { bootId },
        'the container engine was restarted and its containers had ended: applications that ran are brought back',
      )
      await begin(bootId, reported)
    } else if (current.engine?.began !== reported.began || current.engine.liveRestore !== liveRestore) {
      await held()
      await recordEngine(db, hostId, reported)
      current = { bootId, engine: reported }
    }
    return bootId
  }

  const settled = coalesced(settle)
  const bootId = bootIdOf(current, machineBootId, null)
  await begin(bootId, bootId === current.bootId ? current.engine : null)
  return {
    get id() {
      return current.bootId!
    },
    // A caller never shares a query that started before its call.
    settle: () => settled(hostId),
  }
}
