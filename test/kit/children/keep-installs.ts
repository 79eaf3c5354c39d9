import { openInstallCache } from '../../../activities/installs/cache.ts'
import { snapshots } from '../../../activities/snapshots/process.ts'

// A process that stores one folder as the result of one key after the other, until it is killed. Older ones go for it.
const [root, folder, maxBytes] = process.argv.slice(2)
const made = snapshots()
const { digest, bytes } = await made.digest(folder!, AbortSignal.timeout(60_000))
const cache = await openInstallCache({ root: root!, maxBytes: Number(maxBytes), snapshots: made })
for (let number = 1; ; number++) {
  cache.keep('ana', number.toString(16).padStart(64, '0'), { folder: folder!, digest, bytes, at: number })
  await cache.settled()
}
