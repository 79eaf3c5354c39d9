import type { limitConnections } from '../../../activities/containers/network-rules.ts'
import type { ListedContainer } from '../../../activities/containers/port.ts'
import { databaseRole } from '../../../activities/databases/names.ts'
import { EngineUnavailable } from '../../../activities/databases/port.ts'
import { BandwidthKeeper, type BandwidthKeeperOptions } from '../bandwidth-keeper.ts'
import { OutputReaders, type OutputReadersOptions } from '../output-readers.ts'
import { EachRun } from '../watch/each-run.ts'
import { databaseOf } from './database-residents.ts'

const residents = { role: databaseRole, idOf: databaseOf }

export interface DatabaseBoundsOptions
  extends Omit<BandwidthKeeperOptions & OutputReadersOptions, 'residents' | 'ended'> {
  /** Null on a host without the firewall: it limits none. */
  limitConnections: typeof limitConnections | null
  /** Sets in the running engine of a database what its settings say by now. */
  adopt(databaseId: string): Promise<void>
}

/**
 * Bounds what the engines of customers print and send, as the programs of applications: an engine prints what its customer makes it print.
 * Limits the connections to each run of an engine, also one that somebody else has started, or that lacks its rules, and adopts it.
 * Call the result with the containers of these databases, or of all, until the signal aborts.
 */
export function databaseBounds(options: DatabaseBoundsOptions, signal: AbortSignal) {
  const { log, limitConnections, adopt, now } = options
  let looks = 0
  // What one look has seen is inspected after it: a container that was replaced since an earlier one is another.
  const inspect = shared((key: string) => options.engine.inspect(key.slice(key.indexOf(' ') + 1)))
  const engine = { inspect: (name: string) => inspect(`${looks} ${name}`) }
  const readers = new OutputReaders({ ...options, residents }, signal)
  const bandwidths = new BandwidthKeeper({ ...options, residents, engine })
  const connections = new EachRun({
    ...{ engine, residents, now },
    begin: async ({ labels, connection }) => connection && limitConnections?.({ labels, ...connection }),
    onFailure: (error, { name }) =>
      log.warn({ err: error, container: name }, 'connections to a database are not limited yet: will try again'),
  })
  const adopted = new EachRun({
    ...{ engine, residents, now },
    begin: container => adopt(databaseOf(container)),
    onFailure(error, { name }) {
      // Most have just been started.
      if (!(error instanceof EngineUnavailable)) log.warn({ err: error, container: name }, 'adopting: will try again')
    },
  })
  return (present: readonly ListedContainer[], ids?: ReadonlySet<string>): void => {
    looks++
    readers.see(present, ids)
    for (const each of [bandwidths, connections, adopted]) void each.see(present, ids)
  }
}

/** Calls with one key share the one that is under way: what is done once for each run is done for the same run at the same moment. */
function shared<T>(work: (key: string) => Promise<T>): (key: string) => Promise<T> {
  const inProgress = new Map<string, Promise<T>>()
  return key => {
    const present = inProgress.get(key)
    if (present) return present
    const pending = work(key).finally(() => inProgress.delete(key))
    inProgress.set(key, pending)
    return pending
  }
}
