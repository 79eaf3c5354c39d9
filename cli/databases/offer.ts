import type { HostRow } from '../../db/hosts/hosts.ts'
import { type DatabaseSettings, imagesOnOffer } from '../../policy/databases/database-settings.ts'
import { engines } from '../../policy/databases/engines.ts'
import { mongoStandIn } from '../../policy/databases/mongo.ts'
import type { Finding } from '../doctor/findings.ts'

type Settings = Pick<DatabaseSettings, 'engines' | 'mongoStandIn'>

/** What accounts can rent, in one line: types with their versions, and a stand-in by name. */
export function offerWords({ engines: offered, mongoStandIn: withStandIn }: Settings): string {
  if (offered.length === 0) return 'none: DATABASE_ENGINES is `none`'
  const words = offered.map(name => {
    const standIn = name === 'mongo' && withStandIn ? ' (a stand-in where MongoDB is not available)' : ''
    return `${name} ${engines[name].versions.join(' and ')}${standIn}`
  })
  return words.join(', ')
}

type ReportingHost = Pick<HostRow, 'id' | 'reachable' | 'database_images'>

/** What is offered, the stand-in if one may serve, and the images that hosts do not have, with the reason that they report. */
export function databaseFindings(settings: DatabaseSettings, hosts: readonly ReportingHost[]): Finding[] {
  const reporting = hosts.filter(({ reachable }) => reachable)
  return [
    { name: 'databases', state: offerWords(settings) },
    ...standInFinding(settings, reporting),
    ...imagesOnOffer(settings).flatMap(image => imageFindings(image, settings, reporting)),
  ]
}

const standIns = engines.mongo.versions.map(mongoStandIn.image)
const real = engines.mongo.versions.map(engines.mongo.image)

function standInFinding(
  { engines: offered, mongoStandIn: isOn }: Settings,
  hosts: readonly ReportingHost[],
): Finding[] {
  if (!isOn || !offered.includes('mongo')) return []
  const users = hosts.filter(({ database_images: images }) => real.some(image => images[image] !== 'ready'))
  const where = users.length ? `; it is used on ${users.map(({ id }) => id).join(', ')}` : '; no host needs it'
  return [
    {
      name: 'mongo',
      state: `MONGO_STAND_IN is on: where MongoDB is not available, SecantusDB (beta, not MongoDB) is used instead${where}`,
      remedy: 'if strangers have accounts, remove MONGO_STAND_IN and restart; databases that use it stay on it',
    },
  ]
}

/** Hosts with the same reason share a line. One that has the stand-in does not need the image of MongoDB. */
function imageFindings(image: string, { mongoStandIn: isOn }: Settings, hosts: readonly ReportingHost[]): Finding[] {
  const hostsBy = new Map<string, string[]>()
  for (const { id, database_images: images } of hosts) {
    const state = images[image] ?? beingPrepared
    const isReplaced = isOn && real.includes(image) && standIns.some(standIn => images[standIn] === 'ready')
    if (state === 'ready' || isReplaced) continue
    hostsBy.set(state, [...(hostsBy.get(state) ?? []), id])
  }
  return [...hostsBy].map(([state, ids]) => {
    const [why = '', ...rest] = state.split('\n')
    const words = `${image} ${state === beingPrepared ? state : `NOT AVAILABLE: ${why}`}`
    const remedy = rest.join(' ') || undefined
    return { name: `Databases on ${ids.join(', ')}`, state: words, remedy }
  })
}

const beingPrepared = 'is being prepared'
