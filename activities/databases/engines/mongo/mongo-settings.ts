import { createHmac } from 'node:crypto'
import { connectionsOf } from '../../../../policy/databases/engines.ts'
import { certificateFiles, type DatabaseSecrets, type DatabaseTraits, places } from '../../port.ts'

const settingsFile = 'mongod.conf'
/** What members of a replica set have in common. Ours has only one, but MongoDB requires it. */
const keyFile = 'mongod.key'

/**
 * Not `db`, nor `configdb`, where the official image declares volumes: the engine would mount them over ours, outside of the disk that the
 * database has. The stand-in declares none.
 */
const dataFolder = ({ standIn }: DatabaseTraits): string => `${places.data}/${standIn ? 'db' : 'mongo'}`

export const platformUser = 'berth_platform'
export const replicaSet = 'rs0'

/** The only member of the replica set, by the address that its clients know. */
export const memberOf = ({ advertised }: DatabaseTraits): string => `${advertised.host}:${advertised.port}`

const cacheGb = (memoryMb: number): string => Math.max(0.25, (memoryMb / 1024) * 0.4).toFixed(2)

/** Settings that only one of the two servers knows. */
const special = (traits: DatabaseTraits): string =>
  traits.standIn
    ? `setParameter:
  berthMember: ${memberOf(traits)}
`
    : `  keyFile: ${dataFolder(traits)}/${keyFile}
setParameter:
  # Hundreds of MB about its own performance.
  diagnosticDataCollectionEnabled: false
`

const settings = (traits: DatabaseTraits): string => `\
net:
  port: ${traits.port}
  bindIp: 0.0.0.0
  maxIncomingConnections: ${connectionsOf('mongo', traits.memoryMb).inAll}
  unixDomainSocket:
    pathPrefix: ${places.run}
    filePermissions: 0700
  tls:
    mode: requireTLS
    certificateKeyFile: ${places.settings}/${certificateFiles.pair}
    CAFile: ${places.settings}/${certificateFiles.authority}
    allowConnectionsWithoutCertificates: true
storage:
  dbPath: ${dataFolder(traits)}
  wiredTiger:
    engineConfig:
      cacheSizeGB: ${cacheGb(traits.memoryMb)}
replication:
  replSetName: ${replicaSet}
  # It would take 5 % of the disk, and 990 MB at least.
  oplogSizeMB: 512
systemLog:
  quiet: true
security:
  authorization: enabled
  # Functions in queries.
  javascriptEnabled: false
${special(traits)}`

/** Text files by name. */
export function mongoSettings(traits: DatabaseTraits, { platformPassword }: DatabaseSecrets): Record<string, string> {
  return {
    [settingsFile]: settings(traits),
    [keyFile]: `${createHmac('sha512', platformPassword).update('berth/mongo/key-file').digest('base64')}\n`,
  }
}

export const mongoCommand = (): string[] => ['mongod', '--config', `${places.settings}/${settingsFile}`]

/** MongoDB wants a folder, and in it a key that no group may read; the stand-in makes the folder and has no key. */
export const mongoInitialise = (traits: DatabaseTraits): string[][] =>
  traits.standIn
    ? []
    : [['install', '-D', '-m', '0400', `${places.settings}/${keyFile}`, `${dataFolder(traits)}/${keyFile}`]]

export const socketFile = ({ port }: DatabaseTraits): string => `mongodb-${port}.sock`
