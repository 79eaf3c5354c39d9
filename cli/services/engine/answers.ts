import { request } from 'node:http'
import { text } from 'node:stream/consumers'

/** Whether an engine answers its ping within 2 s. */
export async function answers(address: string): Promise<boolean> {
  return (await get(address, '/_ping')) !== null
}

/** Whether an engine says within 2 s which networks it has. One whose networks are deadlocked answers its ping all the same. */
export async function answersAboutNetworks(address: string): Promise<boolean> {
  return (await get(address, '/networks')) !== null
}

/** The version of the engine at an address, such as `28.5.1`; null when none answers within 2 s. */
export async function engineVersion(address: string): Promise<string | null> {
  const version = await get(address, '/version')
  return version === null ? null : /"Version":"([^"]+)"/.exec(version)![1]!
}

/** Whether containers keep running when the engine at an address stops; null when it does not answer within 2 s. */
export async function containersLiveOn(address: string): Promise<boolean | null> {
  const info = await get(address, '/info')
  return info === null ? null : /"LiveRestoreEnabled":true/.test(info)
}

/** The body that an engine answers with 200 within 2 s, else null. */
function get(address: string, path: string): Promise<string | null> {
  const url = new URL(address)
  const target =
    url.protocol === 'unix:' ? { socketPath: url.pathname } : { host: url.hostname, port: url.port || 2375 }
  return new Promise(resolve => {
    const call = request({ ...target, path, timeout: 2000 }, response => {
      text(response).then(
        body => resolve(response.statusCode === 200 ? body : null),
        () => resolve(null),
      )
    })
    call.once('timeout', () => call.destroy())
    call.once('error', () => resolve(null))
    call.end()
  })
}
