import { join } from 'node:path'
import { dockerHost } from '../../activities/containers/docker/host.ts'
import { eachConcurrently } from '../../lib/async/concurrently.ts'
import { KeyedLock } from '../../lib/async/keyed-lock.ts'
import type { DatabaseSettings } from '../../policy/databases/database-settings.ts'
import { engines } from '../../policy/databases/engines.ts'
import { mongoStandIn } from '../../policy/databases/mongo.ts'
import { firstLanguages } from '../../policy/hosts/warm-images.ts'
import { runtimes } from '../../policy/runtimes.ts'
import { rootfsMaker } from '../../runtimes/rootfs.ts'
import { type Say, step } from '../terminal/terminal.ts'
import { findProgram, installPackages, isRoot } from './system-packages.ts'
import { cacheFolder } from './temporal-binary.ts'

/** The images that every installation should have before the first upload. */
export function firstImages(): string[] {
  return firstLanguages.map(language => runtimes[language].image(runtimes[language].recommended))
}

const standIns = engines.mongo.versions.map(mongoStandIn.image)

/** Builds are limited by the processor half of the time, and by packages that arrive or unpack in the other half. */
const atOnce = 2

/** Makes images available: already present, pulled, or built here by the recipes. Rejects with the reason. */
export async function ensureImages(images: string[], dockerAddress: string, say: Say): Promise<void> {
  const engine = dockerHost({ dockerHost: dockerAddress, makeRootfs: makerThatInstalls(say) })
  await eachConcurrently(images, atOnce, image =>
    step(say, `preparing the image ${image}`, () => engine.ensureImage(image)),
  )
}

/** What the host needs to make the stand-in for MongoDB, which it cannot install itself, and a warning; nothing if it is not enabled. */
export async function prepareStandIn({ mongoStandIn: isEnabled }: DatabaseSettings, say: Say): Promise<void> {
  if (!isEnabled) return
  say(
    'Where MongoDB’s image cannot be pulled, a stand-in serves databases of type mongo: SecantusDB, which is beta software.',
  )
  for (const image of standIns) await installTools(image, say)
}

/** Building an image needs programs that are installed only when an image must be built. */
function makerThatInstalls(say: Say): ReturnType<typeof rootfsMaker> {
  const make = rootfsMaker(join(cacheFolder(), 'images'))
  return async (image, onProgress) => {
    await installTools(image, say)
    return make(image, onProgress)
  }
}

const installing = new KeyedLock()

function installTools(image: string, say: Say): Promise<void> {
  return installing.run('', async () => {
    await installTool('mmdebstrap', 'mmdebstrap', 'which builds images where no registry answers', say)
    if (standIns.includes(image))
      await installTool('pip3', 'python3-pip', 'which fetches the stand-in for MongoDB', say)
  })
}

async function installTool(tool: string, name: string, why: string, say: Say): Promise<void> {
  if (isRoot() && !findProgram(tool, process.env.PATH))
    await installPackages({ what: `${tool} (${why})`, packages: [name] }, say)
}
