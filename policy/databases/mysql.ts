import type { Engine } from './engine.ts'

export const mysql = {
  versions: ['9'],
  image: version => `berth/mysql:${version}`,
  official: version => `mysql:${version}`,
  inMemory: false,
  minMemoryMb: 1024,
  stop: { signal: 'SIGTERM', graceSeconds: 60 },
  ownerConnections: memoryMb => Math.min(400, Math.max(40, Math.floor(memoryMb / 10))),
  // No option for TLS: each driver has its own, and takes another's for an error.
  url: { scheme: 'mysql', path: '', query: '' },
} as const satisfies Engine
