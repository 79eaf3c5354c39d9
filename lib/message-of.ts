/** What a thrown value says; not everything that is thrown is an Error. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
