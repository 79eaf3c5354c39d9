/** What came of a call. */
export interface Outcome {
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into whatever came
  answer?: any
  requestId?: string | null
  error?: {
    /** Of the client's class. */
    name: string
    status?: number
    code?: string | null
    type?: string | null
    message?: string
  }
}

/** Where a client is pointed to, which is all that a program changes to use the gateway. */
export interface Access {
  baseUrl: string
  apiKey: string
}

/** An official client, with its defaults. A call resolves also when it fails. */
export interface OpenAiClient {
  complete(access: Access, body: object): Promise<Outcome>
  /** Requests a completion, and leaves `once` this has come true, before there is an answer. */
  leave(access: Access, body: object, once: Promise<unknown>): Promise<void>
  listModels(access: Access): Promise<Outcome>
  getModel(access: Access, model: string): Promise<Outcome>
}
