import type { Engine } from './engine.ts'

export const postgres = {
  versions: ['17'],
  image: version => `berth/postgres:${version}`,
  official: version => `postgres:${version}`,
  inMemory: false,
  minMemoryMb: 1024,
  // TERM waits for its clients; INT ends their sessions and then writes a checkpoint.
  stop: { signal: 'SIGINT', graceSeconds: 30 },
  ownerConnections: memoryMb => Math.min(400, Math.max(40, Math.floor(memoryMb / 10))),
  // No sslmode: some drivers take one in the URL as a reason to ignore the certificate that they are given alongside it.
  url: { scheme: 'postgres', path: '', query: '' },
} as const satisfies Engine
