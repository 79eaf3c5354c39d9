import type { TestApi, TestUser } from '../actors/api.ts'
import { s3Of } from './sdk.ts'
import { S3Wire } from './wire.ts'

/** A new account that speaks S3, by Amazon's SDK and by plain requests. */
export async function s3Account(api: TestApi, { user, key }: { user?: TestUser; key?: string } = {}) {
  const owner = user ?? (await api.makeUser())
  const { client, send, credentials } = await s3Of(api, owner, key)
  return { user: owner, client, send, credentials, wire: new S3Wire(api.s3Url, credentials) }
}

export type S3Account = Awaited<ReturnType<typeof s3Account>>

/** The code of the error of a request that is refused; throws when it is not. */
export async function refusal(request: Promise<unknown>): Promise<string> {
  const error = await request.then(
    () => undefined,
    (thrown: Error) => thrown,
  )
  if (!error) throw new Error('The request was not refused.')
  return error.name
}

/** The texts of all elements of a name, as they are in the document. */
export const elementsOf = (text: string, name: string): string[] =>
  [...text.matchAll(new RegExp(`<${name}>([^<]*)</${name}>`, 'g'))].map(([, content]) => content!)
