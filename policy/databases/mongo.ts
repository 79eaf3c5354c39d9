import type { Engine } from './engine.ts'

export const mongo = {
  versions: ['8'],
  image: version => `berth/mongo:${version}`,
  official: version => `mongo:${version}`,
  inMemory: false,
  minMemoryMb: 1024,
  stop: { signal: 'SIGTERM', graceSeconds: 30 },
  ownerConnections: memoryMb => Math.min(400, Math.max(40, Math.floor(memoryMb / 10))),
  // Direct: otherwise drivers connect to the name that the replica set gives its member, which not every client can resolve. Transactions and
  // change streams are the same. Nothing that would keep a driver from verifying with the certificate that it is given.
  url: { scheme: 'mongodb', path: '/', query: 'tls=true&authSource=admin&directConnection=true' },
} as const satisfies Engine

/** Speaks the protocol of MongoDB and is no MongoDB. An operator enables it (MONGO_STAND_IN) where no registry has the real one. */
export const mongoStandIn = { image: (version: string) => `berth/mongo-stand-in:${version}` } as const
