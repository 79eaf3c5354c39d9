import test from 'ava'
import { snapshotSlots } from '../../activities/snapshots/snapshot-slots.ts'
import { allocateSegment } from '../../db/objects/segments.ts'
import { newId } from '../../policy/ids.ts'
import { hostActivitiesContract } from '../contracts/host-activities.ts'
import { decisions, type HostUnderContract } from '../contracts/host-scene.ts'
import type { Trouble } from '../contracts/host-troubles.ts'
import { realHosts } from '../kit/hosts/real-host.ts'
import { rows } from '../kit/rows/rows.ts'
import { testDatabase } from '../kit/servers/database.ts'
import { scriptedHost } from '../workflows/scripted-host.ts'

const database = testDatabase()
const hosts = realHosts(database)
test.after.always('remove what the hosts have', async () => (await hosts).close())

hostActivitiesContract(test.serial, 'real', { database, subject: async () => (await hosts).open() })
hostActivitiesContract(test.serial, 'scripted', { database, subject: scripted })

/** The scripted host of the workflow tests. */
async function scripted(): Promise<HostUnderContract> {
  const { db } = await database
  const id = `h-${newId()}`
  await rows(db).host(id)
  const installing = new Set<string>()
  const troubles = new Map<string, Trouble | null>()
  const places = snapshotSlots(db, { lookEveryMs: 20, holdEveryMs: 50 })
  const { activities, at } = scriptedHost(
    { ...decisions, db, places, hostId: id },
    {
      trouble: ({ appId }) => troubles.get(appId),
      installs: ({ source }) => source?.kind === 'archive' && installing.has(source.segmentId),
    },
  )
  return {
    id,
    activities,
    async store({ installs }) {
      const segmentId = await allocateSegment(db)
      if (installs) installing.add(segmentId)
      return segmentId
    },
    async lay({ appId, number }) {
      at(appId).disk = true
      at(appId).place(number)
    },
    suffer: async (appId, trouble) => void troubles.set(appId, trouble),
    standing: async appId => at(appId).standing(),
  }
}
