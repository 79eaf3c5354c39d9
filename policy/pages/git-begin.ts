import type { PageText } from './page-text.ts'

type Texts = Record<
  'title' | 'intro' | 'kept' | 'session' | 'choose' | 'chosen' | 'wrong' | 'noneTitle' | 'none',
  string
>

/** The first step of connecting an account to the git provider. */
export const gitBeginText: PageText<Texts> = {
  'pt-BR': {
    title: 'Conectar o provedor git',
    intro:
      'Repositórios que você escolher no provedor git poderão ser vinculados às suas aplicações: cada push é implantado.',
    kept: 'Seu token de sessão fica neste navegador e é enviado somente a esta plataforma.',
    session: 'Token de sessão',
    choose: 'Escolher repositórios',
    chosen: 'Já foram escolhidos',
    wrong: 'O token de sessão está errado ou já não é válido.',
    noneTitle: 'Sem provedor git',
    none: 'O operador desta plataforma não configurou um provedor git.',
  },
  'en-US': {
    title: 'Connect the git provider',
    intro:
      'You can then link repositories that you choose at the git provider to your applications: every push is deployed.',
    kept: 'Your session token stays in this browser and is sent only to this platform.',
    session: 'Session token',
    choose: 'Choose repositories',
    chosen: 'I have already chosen them',
    wrong: 'The session token is wrong, or no longer valid.',
    noneTitle: 'No git provider',
    none: 'The operator of this platform has not set up a git provider.',
  },
  'es-ES': {
    title: 'Conectar el proveedor de git',
    intro:
      'Los repositorios que elijas en el proveedor de git podrán vincularse a tus aplicaciones: cada push se despliega.',
    kept: 'Tu token de sesión se queda en este navegador y solo se envía a esta plataforma.',
    session: 'Token de sesión',
    choose: 'Elegir repositorios',
    chosen: 'Ya están elegidos',
    wrong: 'El token de sesión es incorrecto o ya no es válido.',
    noneTitle: 'Sin proveedor de git',
    none: 'El operador de esta plataforma no ha configurado ningún proveedor de git.',
  },
  'zh-CN': {
    title: '连接 git 提供商',
    intro: '您在 git 提供商处选择的仓库之后可以关联到您的应用：每次推送都会部署。',
    kept: '您的会话令牌保留在此浏览器中，只会发送给本平台。',
    session: '会话令牌',
    choose: '选择仓库',
    chosen: '已经选择过了',
    wrong: '会话令牌错误或已失效。',
    noneTitle: '没有 git 提供商',
    none: '本平台的运营者没有设置 git 提供商。',
  },
  'ja-JP': {
    title: 'git プロバイダーを接続',
    intro: 'git プロバイダーで選んだリポジトリをアプリケーションにリンクできます。プッシュのたびにデプロイされます。',
    kept: 'セッショントークンはこのブラウザに保存され、このプラットフォームにのみ送信されます。',
    session: 'セッショントークン',
    choose: 'リポジトリを選ぶ',
    chosen: 'すでに選んであります',
    wrong: 'セッショントークンが間違っているか、無効になっています。',
    noneTitle: 'git プロバイダーがありません',
    none: 'このプラットフォームの運営者は git プロバイダーを設定していません。',
  },
  'fr-FR': {
    title: 'Connecter le fournisseur git',
    intro:
      'Les dépôts que vous choisissez chez le fournisseur git peuvent ensuite être liés à vos applications : chaque push est déployé.',
    kept: "Votre jeton de session reste dans ce navigateur et n'est envoyé qu'à cette plateforme.",
    session: 'Jeton de session',
    choose: 'Choisir des dépôts',
    chosen: 'Ils sont déjà choisis',
    wrong: "Le jeton de session est erroné ou n'est plus valable.",
    noneTitle: 'Pas de fournisseur git',
    none: "L'opérateur de cette plateforme n'a configuré aucun fournisseur git.",
  },
  'de-DE': {
    title: 'Git-Anbieter verbinden',
    intro:
      'Repositorys, die Sie beim Git-Anbieter auswählen, können dann mit Ihren Anwendungen verknüpft werden: Jeder Push wird bereitgestellt.',
    kept: 'Ihr Sitzungstoken bleibt in diesem Browser und geht nur an diese Plattform.',
    session: 'Sitzungstoken',
    choose: 'Repositorys auswählen',
    chosen: 'Sie sind schon ausgewählt',
    wrong: 'Das Sitzungstoken ist falsch oder nicht mehr gültig.',
    noneTitle: 'Kein Git-Anbieter',
    none: 'Der Betreiber dieser Plattform hat keinen Git-Anbieter eingerichtet.',
  },
  'it-IT': {
    title: 'Collegare il fornitore git',
    intro:
      'I repository che scegli presso il fornitore git possono poi essere collegati alle tue applicazioni: ogni push viene distribuito.',
    kept: 'Il tuo token di sessione resta in questo browser e viene inviato solo a questa piattaforma.',
    session: 'Token di sessione',
    choose: 'Scegli i repository',
    chosen: 'Sono già stati scelti',
    wrong: 'Il token di sessione è errato o non è più valido.',
    noneTitle: 'Nessun fornitore git',
    none: "L'operatore di questa piattaforma non ha configurato alcun fornitore git.",
  },
}
