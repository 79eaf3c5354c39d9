export interface SearchResult {
  title: string
  url: string
  excerpt: string
}

/** Finds pages on the web, and opens none. */
export interface WebSearch {
  /** Resolves to the best results first. Rejects when the search fails, or once the signal aborts; the error repeats no query. */
  search(query: string, signal: AbortSignal): Promise<SearchResult[]>
}
