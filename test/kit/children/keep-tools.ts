import { open } from 'node:fs/promises'
import { openInstallCache } from '../../../activities/installs/cache.ts'
import { snapshots } from '../../../activities/snapshots/process.ts'

// A process that holds and stores one file as the tools' cache of one application after the other, until it is killed. Older ones go for it.
const [root, path, maxBytes] = process.argv.slice(2)
const cache = await openInstallCache({ root: root!, maxBytes: Number(maxBytes), snapshots: snapshots() })
const key = 'a'.repeat(64)
for (let number = 1; ; number++) {
  const file = await open(path!, 'r')
  const { size } = await file.stat()
  cache.keepTools('ana', `app-${number}`, { key, at: number, bytes: size, file })
  await cache.settled()
  await cache.openTools('ana', `app-${number}`, key, AbortSignal.timeout(60_000))
}
