import type { ExecutionContext } from 'ava'
import { newId } from '../../../policy/ids.ts'
import { bareDocker } from '../hosts/host-remains.ts'

/** Images under a name that no other test has: what is tagged with it changes nobody else's databases. Removed with the test. */
export function privateImage(t: ExecutionContext, base: string) {
  const [repo, tag] = [`berth/test-${newId().slice(0, 8)}`, base.split(':')[1]!]
  const name = `${repo}:${tag}`
  const made: string[] = []
  t.teardown(async () => {
    for (const image of [name, ...made.reverse()])
      await bareDocker
        .getImage(image)
        .remove({ force: true })
        .catch(error => {
          if (error.statusCode !== 404) throw error
        })
  })
  const idOf = async (image: string): Promise<string> => (await bareDocker.getImage(image).inspect()).Id
  return {
    name,
    /** Id of the image that it was made from. */
    base: () => idOf(base),
    /** Gives the name to an image that differs by what this script has done in it, and by declared volumes; resolves to its id. */
    async make(script: string, volumes: string[] = []): Promise<string> {
      const container = await bareDocker.createContainer({ Image: base, Cmd: ['sh', '-c', script] })
      try {
        await container.start()
        await container.wait()
        const declared = volumes.length > 0 ? [`VOLUME ${JSON.stringify(volumes)}`] : []
        await container.commit({ repo, tag, changes: [`LABEL made=${newId()}`, ...declared].join('\n') })
      } finally {
        await container.remove({ force: true })
      }
      const id = await idOf(name)
      made.push(id)
      return id
    },
  }
}

/** A script for `make`: redis ends at once, and says why in its log. */
export const breaksRedis = `printf '#!/bin/sh\\necho broken\\nexit 3\\n' > "$(command -v redis-server)"`
