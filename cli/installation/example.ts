import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { addressOf, listApps, Refused } from '../client/client.ts'
import { followApp } from '../client/follow-app.ts'
import { deploy, localTarget } from '../deploy.ts'
import type { Say } from '../terminal/terminal.ts'
import { checkout, type Installation } from './installation.ts'

const followSeconds = 600

/** At the first start, deploys examples/hello-node as any client would. Resolves to its address, or to null if it was deployed before. */
export async function deployExample(installation: Installation, say: Say): Promise<string | null> {
  const done = join(installation.dataDir, 'example-deployed')
  if (existsSync(done) || !installation.secrets.apiKey) return null
  const target = localTarget(installation)
  say('Deploying examples/hello-node through the API')
  const domain = `hello.${installation.config.appsDomain}`
  try {
    await deploy(target, join(checkout, 'examples/hello-node'), { seconds: followSeconds }, say)
  } catch (error) {
    if (!(error instanceof Refused && error.code === 'SUBDOMAIN_TAKEN')) throw error
    // An earlier first start was interrupted after the upload: the application exists, or is being created.
    const app = (await listApps(target)).find(other => other.domain === domain)
    if (app) await followApp(target, { id: app.id, name: 'hello', domain }, { seconds: followSeconds })
  }
  writeFileSync(done, '')
  return addressOf(target, domain)
}
