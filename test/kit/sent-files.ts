import type { Answer, TestApi } from './api.ts'

export interface SentFile {
  bytes?: Buffer | string
  /** Null: the part has none. */
  fileName?: string
  type?: string
  field?: string
  headers?: Record<string, string>
}

/** Uploads a file on the blob API, as whoever holds the credential. */
export function sendFile(
  api: TestApi,
  who: Parameters<TestApi['blobAs']>[0],
  query: Record<string, string> = {},
  { bytes = 'hello', fileName = 'file.txt', type, field = 'file', headers = {} }: SentFile = {},
): Promise<Answer> {
  const form = new FormData()
  form.append(field, new Blob([bytes], type === undefined ? {} : { type }), fileName)
  return api.blobAs(who).post(`/v1/objects?${new URLSearchParams(query)}`, form, headers)
}

/** Uploads a file that must be accepted, and gives the answer's value. */
export async function sent(...args: Parameters<typeof sendFile>): Promise<{ id: string } & Record<string, unknown>> {
  const answer = await sendFile(...args)
  if (answer.status !== 200) throw new Error(`An upload was answered ${answer.status}: ${answer.text}`)
  return answer.body.response
}
