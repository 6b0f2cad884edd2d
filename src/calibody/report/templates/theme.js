"use strict";
// Light or dark: as the system has it at first, light on paper. Whoever draws by colours listens for "themechange".
(() => {
  const root = document.documentElement;
  let before = null;

  function theme(name) {
    root.dataset.theme = name;
    document.dispatchEvent(new Event("themechange"));
  }

  theme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  document.getElementById("theme").addEventListener("click", () => theme(root.dataset.theme === "dark" ? "light" : "dark"));
  addEventListener("beforeprint", () => { before = root.dataset.theme; theme("light"); });
  addEventListener("afterprint", () => { if (before) theme(before); });
})();
